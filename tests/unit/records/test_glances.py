"""A glance at a batch tells the same as its whole header."""

from __future__ import annotations

import pytest

from actors.records.batch import CONTROL, HEADER_BYTES, TRANSACTIONAL, read_header
from actors.records.building import build_batch
from actors.records.glances import BRIEF, any_marked, magic_of
from actors.records.markers import ABORT, COMMIT, UNKNOWN, marker_of

NOW = 1_700_000_000_000
PLAIN = build_batch([(b"k", b"v", None, NOW)] * 3, base_offset=7, compression="gzip")
OPEN = build_batch([(b"k", b"v", None, NOW)], producer_id=5, is_transactional=True)
ENDED = build_batch([(b"\0\0\0\1", b"", None, NOW)], producer_id=5, is_transactional=True, is_control=True)


@pytest.mark.parametrize("batch", [PLAIN, OPEN, ENDED])
def test_a_brief_look_finds_what_the_header_says(batch: bytes) -> None:
    header = read_header(batch)
    assert BRIEF.unpack_from(batch) == (header.base_offset, header.length, header.last_offset_delta)
    assert magic_of(batch) == header.magic
    for mark in (CONTROL, TRANSACTIONAL):
        assert any_marked(PLAIN + batch, mark) == bool(header.attributes & mark)


def test_bytes_that_are_no_batches_have_no_marks() -> None:
    assert not any_marked(b"", CONTROL)
    assert not any_marked(OPEN[: HEADER_BYTES - 1], TRANSACTIONAL)
    assert not any_marked(PLAIN[:8] + b"\xff" * 4 + PLAIN[12:] + OPEN, TRANSACTIONAL)
    assert magic_of(PLAIN[:16]) is None


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (b"\0\0\0\0", ABORT),
        (b"\0\0\0\1", COMMIT),
        (b"\0\1\0\1\0\0", COMMIT),
        (b"\0\0\0\2", 2),
        (b"\0\0\0", UNKNOWN),
        (b"", UNKNOWN),
        (None, UNKNOWN),
    ],
)
def test_a_marker_says_how_a_transaction_ended(key: bytes | None, kind: int) -> None:
    assert marker_of(key) == kind
