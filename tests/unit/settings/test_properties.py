"""Properties files as Kafka's users write them."""

from __future__ import annotations

import pytest

from actors.settings import SettingError, parse_properties


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1\nb: 2\r\nc 3", {"a": "1", "b": "2", "c": "3"}),
        ("# note\n! note\n\n  a=1", {"a": "1"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\", {"a": "1"}),
        ("a=C:\\\\dir\\tx\\u0041", {"a": "C:\\dir\txA"}),
        ("a\\=b=c=d", {"a=b": "c=d"}),
        ("listeners=PLAINTEXT://:9092", {"listeners": "PLAINTEXT://:9092"}),
        ("a=1\na=2", {"a": "2"}),
        ("broker.rack=", {"broker.rack": ""}),
        ("broker.rack", {"broker.rack": ""}),
        ("a=1 # not a comment", {"a": "1 # not a comment"}),
        ("a=ends\\\\\nb=2", {"a": "ends\\", "b": "2"}),
        ("a=1\\\n#2", {"a": "1#2"}),
        ("", {}),
    ],
)
def test_text_gives_these_settings(text: str, found: dict[str, str]) -> None:
    assert parse_properties(text) == found


@pytest.mark.conformance("XE-31")
def test_line_without_a_name_is_named() -> None:
    """The line may hold a secret, so that the error does not quote it."""
    with pytest.raises(SettingError, match=r"line 2 of the properties file names no setting$"):
        parse_properties("a=1\n= 3")
