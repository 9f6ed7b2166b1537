"""The text that describes a first user, as for Kafka's tools: SECURITY.md, B.6."""

from __future__ import annotations

import base64

import pytest

from actors.security.add_scram import AddScram, AddScramError, parse_add_scram
from actors.security.scram import ScramCredential, ScramMechanism, salted_password

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
SALTED = base64.b64encode(bytes(32)).decode()


@pytest.mark.conformance("XB-40")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SCRAM-SHA-256=[name=alice,password=secret]", AddScram(SHA_256, "alice", "secret")),
        ('SCRAM-SHA-512=[name="alice",password="se,c]=r"]', AddScram(SHA_512, "alice", "se,c]=r")),
        (" SCRAM-SHA-256 = [ name = alice , password = a=b ] ", AddScram(SHA_256, "alice", "a=b")),
        ("SCRAM-SHA-256=[password=-,name=alice]", AddScram(SHA_256, "alice", "-")),
        ("SCRAM-SHA-256=[name=alice,password-file=/a/b]", AddScram(SHA_256, "alice", password_file="/a/b")),
        (
            f"SCRAM-SHA-256=[name=alice,saltedpassword={SALTED},salt=c2FsdA==,iterations=8192]",
            AddScram(SHA_256, "alice", salted=bytes(32), salt=b"salt", iterations=8192),
        ),
        (
            "SCRAM-SHA-256=[name=alice,password=x,iterations=16384]",
            AddScram(SHA_256, "alice", "x", iterations=16384),
        ),
    ],
)
def test_it_is_written_as_for_kafkas_tools(text: str, expected: AddScram) -> None:
    assert parse_add_scram(text) == expected


@pytest.mark.conformance("XB-40")
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "a first user is SCRAM-SHA-256 or SCRAM-SHA-512="),
        ("alice:secret", "a first user is"),
        ("SCRAM-SHA-1=[name=alice,password=secret]", "a first user is"),
        ("SCRAM-SHA-256=name=alice,password=secret", "a first user is"),
        ("SCRAM-SHA-256=[password=secret]", "needs name="),
        ("SCRAM-SHA-256=[name=,password=secret]", "cannot be empty"),
        ("SCRAM-SHA-256=[name=alice]", "needs one of password="),
        ("SCRAM-SHA-256=[name=alice,password=]", "password of first user 'alice' is empty"),
        ("SCRAM-SHA-256=[name=alice,password=secret,password-file=x]", "needs one of"),
        ("SCRAM-SHA-256=[name=alice,password=secret,age=7]", "has no age="),
        ("SCRAM-SHA-256=[name=alice,name=bob,password=secret]", "has name= twice"),
        ('SCRAM-SHA-256=[name=alice,password="secret]', '"" around values'),
        ("SCRAM-SHA-256=[name=alice,password=secret,iterations=4095]", "within 4096 and 16384"),
        ("SCRAM-SHA-256=[name=alice,password=secret,iterations=16385]", "within 4096 and 16384"),
        ("SCRAM-SHA-256=[name=alice,password=secret,iterations=many]", "within 4096 and 16384"),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=,salt=c2FsdA==]", "needs salt=, and a byte or more"),
        (f"SCRAM-SHA-256=[name=alice,saltedpassword={SALTED}]", "needs salt="),
        ("SCRAM-SHA-256=[name=alice,saltedpassword=secret!,salt=c2FsdA==]", "is no base64"),
        (f"SCRAM-SHA-256=[name=alice,password=secret,salt={'AAAA' * 21846}]", "at most 65536 bytes"),
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_the_password(text: str, error: str) -> None:
    with pytest.raises(AddScramError) as raised:
        parse_add_scram(text)
    assert error in str(raised.value)
    assert "secret" not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_what_is_kept_is_made_of_the_password_or_of_what_was_made_of_it(mechanism: ScramMechanism) -> None:
    salted = salted_password(mechanism, "pencil", b"s" * 24, 4096)
    expected = ScramCredential.of(mechanism, salted, b"s" * 24, 4096)
    assert AddScram(mechanism, "alice", "pencil").credential("pencil", lambda size: b"s" * size) == expected
    given = AddScram(mechanism, "alice", salted=salted, salt=b"s" * 24)
    assert given.credential(None, bytes) == expected
    assert "pencil" not in repr(AddScram(mechanism, "alice", "pencil"))
