"""Records as lines: text, keys, headers, JSON, and that what consume writes produce reads back."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.cli.errors import CliError
from actors.cli.lines import ToSend, from_json, from_text, parse_headers, separator_bytes, to_json, to_text


@dataclass(frozen=True, slots=True)
class Record:
    key: bytes | None = None
    value: bytes | None = b"v"
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)
    topic: str = "t"
    partition: int = 3
    offset: int = 7
    timestamp: int = 1000


def test_line_is_a_value() -> None:
    assert from_text(b"a:b", None, []) == ToSend(None, b"a:b", [])


def test_line_with_separator_is_key_and_value_at_its_first_place() -> None:
    assert from_text(b"k:v:w", b":", [("h", b"x")]) == ToSend(b"k", b"v:w", [("h", b"x")])
    with pytest.raises(CliError, match="no key separator ':': 'kv'"):
        from_text(b"kv", b":", [])


def test_separator_may_be_typed_as_an_escape() -> None:
    assert separator_bytes("\\t") == b"\t"
    assert separator_bytes("→") == "→".encode()
    assert separator_bytes(None) is None


def test_headers_may_have_no_value() -> None:
    assert parse_headers(["a=1", "b=", "c", "d=x=y"]) == [("a", b"1"), ("b", b""), ("c", None), ("d", b"x=y")]


def test_json_line_carries_everything_a_record_has() -> None:
    line = b'{"key": "k", "value": null, "headers": [["h", "x"], ["n", null]], "partition": 2, "timestamp": 5}'
    assert from_json(line, []) == ToSend(b"k", None, [("h", b"x"), ("n", None)], 2, 5)


def test_json_value_that_is_no_string_is_sent_as_json() -> None:
    assert from_json(b'{"value": {"a": [1, 2]}}', []).value == b'{"a": [1, 2]}'


@pytest.mark.parametrize("timestamp", [-1, -5, -(2**63), 2**63 - 1])
def test_a_record_without_a_time_got_that_of_its_copy(timestamp: int) -> None:
    assert from_json(b'{"timestamp": %d}' % timestamp, []).timestamp_ms == timestamp


def test_a_header_whose_name_is_not_text_was_not_written() -> None:
    record = Record(None, b"v", [(b"\xff\xfe", b"1")])
    assert to_text(record, None, headers=True) == b"\xff\xfe:1\tv\n"
    line = to_json(record)
    assert json.loads(line)["headers"] == [[{"base64": "//4="}, "1"]]
    assert from_json(line, []).headers == record.headers


def test_an_argument_that_is_not_text_keeps_its_bytes() -> None:
    assert parse_headers(["\udcff\udcfe=\udc80", "a=b"]) == [(b"\xff\xfe", b"\x80"), ("a", b"b")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "is not JSON"),
        (b"[1]", "must be an object"),
        (b'{"vaule": 1}', "must be an object"),
        (b'{"headers": ["h"]}', "headers must be pairs"),
        (b'{"partition": "1"}', "partition must be a whole number"),
        (b'{"partition": true}', "partition must be a whole number"),
        (b'{"value": {"base64": "?"}}', "base64 that cannot be read"),
        (b"x" * 500, "xxx\\.\\.\\."),
    ],
)
def test_bad_json_line_is_one_short_error(line: bytes, words: str) -> None:
    with pytest.raises(CliError, match=words) as caught:
        from_json(line, [])
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("record", "separator", "headers", "line"),
    [
        (Record(), None, False, b"v\n"),
        (Record(b"k"), b"\t", False, b"k\tv\n"),
        (Record(None, None), b":", False, b"null:null\n"),
        (Record(b"k", b"v", [("a", b"1"), ("b", None)]), b":", True, b"a:1,b:null\tk:v\n"),
        (Record(), None, True, b"NO_HEADERS\tv\n"),
    ],
)
def test_record_as_text(record: Record, separator: bytes | None, headers: bool, line: bytes) -> None:
    assert to_text(record, separator, headers=headers) == line


def test_record_as_json_names_its_place() -> None:
    shown = json.loads(to_json(Record(b"k", b"\xff", [("h", b"x")])))
    assert shown == {
        "topic": "t",
        "partition": 3,
        "offset": 7,
        "timestamp": 1000,
        "key": "k",
        "value": {"base64": "/w=="},
        "headers": [["h", "x"]],
    }


maybe_bytes = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)


@given(maybe_bytes, maybe_bytes, st.lists(st.tuples(st.text(max_size=5), maybe_bytes), max_size=3))
def test_what_is_written_as_json_is_read_back(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = to_json(Record(key, value, headers))
    assert line.count(b"\n") == 1
    assert from_json(line, []) == ToSend(key, value, headers, 3, 1000)
