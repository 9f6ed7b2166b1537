"""Credentials over the wire: SECURITY.md, B.5."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.broker.entrance.users import StoredUsers
from actors.links.operations import AlterScram
from actors.security.scram import (
    Derivation,
    ScramClient,
    ScramCredential,
    ScramError,
    ScramMechanism,
    ScramServer,
    salted_password,
)
from actors.wire.messages import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest
from tests.support import acl_world
from tests.support.handler_helpers import Broker
from tests.support.own_log import logged

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def upsertion(name: str, mechanism: int = 1, **more: Any) -> Upsertion:
    size = 64 if mechanism == 2 else 32
    given = {"iterations": 8192, "salt": b"salt of ours", "salted_password": bytes(range(size))}
    return Upsertion(name=name, mechanism=mechanism, **{**given, **more})


def alter(broker: Broker, *changes: Deletion | Upsertion) -> list[tuple[str, int]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, Deletion)],
        upsertions=[each for each in changes if isinstance(each, Upsertion)],
    )
    return [(each.user, each.error_code) for each in broker.ask(request, 0).results]


def described(broker: Broker, *names: str) -> dict[str, Any]:
    users = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in names]
    answer = broker.ask(DescribeUserScramCredentialsRequest(users=users or None), 0)
    assert answer.error_code == 0
    assert len({each.user for each in answer.results}) == len(answer.results)
    return {
        each.user: each.error_code or [(info.mechanism, info.iterations) for info in each.credential_infos]
        for each in answer.results
    }


def server_for(broker: Broker, mechanism: ScramMechanism = SHA_256) -> ScramServer:
    users = StoredUsers(broker.context)
    return ScramServer(
        mechanism, lambda name: users.credential(name, mechanism), lambda name: users.dummy(name, mechanism), "theirs"
    )


def first(broker: Broker, user: str) -> bytes:
    return server_for(broker).first(ScramClient(SHA_256, user, "ours").first())


def logs_in(broker: Broker, user: str, mechanism: ScramMechanism, salted: bytes, salt: bytes = b"salt of ours") -> bool:
    """False if the server refuses the proof of a client that has this salted password.

    If it accepts it, it proves to the client that it knows the password's keys, too.
    """
    server, client = server_for(broker, mechanism), ScramClient(mechanism, user, "ours")
    assert client.read_first(server.first(client.first())) == Derivation(salt, 8192)
    proof = client.final(salted)
    try:
        answer = server.final(proof)
    except ScramError as error:
        if str(error) != "wrong credentials":
            raise
        return False
    client.read_final(answer)
    return True


@pytest.mark.conformance("XB-31")
def test_who_has_a_password_is_told_and_for_what(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    assert described(broker) == {}
    assert alter(broker, upsertion("bert", 2), upsertion("anne", iterations=4096)) == [("bert", 0), ("anne", 0)]
    assert alter(broker, upsertion("anne", 2)) == [("anne", 0)]
    everybody = {"anne": [(1, 4096), (2, 8192)], "bert": [(2, 8192)]}
    assert described(broker) == everybody
    assert described(broker, "bert", "carl", "anne", "bert") == {"bert": 92, "carl": 91, "anne": everybody["anne"]}
    answer = broker.ask(DescribeUserScramCredentialsRequest(users=[]), 0)
    assert {each.user for each in answer.results} == {"anne", "bert"}


@pytest.mark.conformance("XB-32")
def test_a_user_who_is_named_twice_stays_as_he_is(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    alter(broker, upsertion("anne"))
    changes = [upsertion("anne", 2), Deletion(name="anne", mechanism=1), upsertion("bert")]
    assert sorted(alter(broker, *changes)) == [("anne", 92), ("bert", 0)]
    assert described(broker) == {"anne": [(1, 8192)], "bert": [(1, 8192)]}
    assert alter(broker, Deletion(name="bert", mechanism=1), Deletion(name="bert", mechanism=1)) == [("bert", 92)]


@pytest.mark.conformance("XB-32")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ([Deletion(name="anne", mechanism=2), Deletion(name="anne", mechanism=1)], 91),
        ([Deletion(name="anne", mechanism=2), upsertion("anne", 2)], 91),
        ([Deletion(name="anne", mechanism=1), Deletion(name="anne", mechanism=2)], 92),
        ([upsertion("anne", 9), upsertion("anne")], 33),
        ([upsertion("anne"), upsertion("anne", 9)], 92),
        ([upsertion("anne", iterations=1), upsertion("anne", 9)], 93),
        ([upsertion("anne", 2), upsertion("anne", 2), upsertion("anne", 2)], 92),
        ([upsertion("anne", 2, salted_password=b""), upsertion("anne", 9)], 92),
    ],
)
def test_of_a_user_who_is_named_twice_the_first_mistake_is_told(tmp_path: Path, changes: list[Any], code: int) -> None:
    broker = Broker(tmp_path)
    alter(broker, upsertion("anne"))
    assert alter(broker, *changes) == [("anne", code)]
    assert described(broker) == {"anne": [(1, 8192)]}


@pytest.mark.conformance("XB-33", "XB-34")
@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), 93),
        (Deletion(name="", mechanism=1), 93),
        (upsertion("anne", 0), 33),
        (upsertion("anne", 3), 33),
        (Deletion(name="anne", mechanism=-1), 33),
        (upsertion("anne", iterations=4095), 93),
        (upsertion("anne", iterations=16385), 93),
        (upsertion("", 9, iterations=0), 93),
        (upsertion("anne", 9, iterations=0), 33),
        (upsertion("anne", 2, iterations=4095), 93),
        (upsertion("anne", salt=bytes(65_537)), 93),
        (upsertion("anne", salted_password=b""), -1),
        (upsertion("anne", 2, salted_password=b""), -1),
        (Deletion(name="anne", mechanism=1), 91),
    ],
)
def test_what_cannot_be_kept_is_refused_and_the_rest_is_carried_out(
    tmp_path: Path, change: Deletion | Upsertion, code: int
) -> None:
    broker = Broker(tmp_path)
    assert sorted(alter(broker, change, upsertion("zoe"))) == [(change.name, code), ("zoe", 0)]
    assert described(broker) == {"zoe": [(1, 8192)]}


@pytest.mark.conformance("XB-33")
def test_the_bounds_themselves_will_do(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    least = upsertion("n", iterations=4096, salt=b"", salted_password=b"x")
    most = upsertion("n" * 32_767, iterations=16384, salt=bytes(65_536), salted_password=bytes(100_000))
    assert {code for _, code in alter(broker, least, most)} == {0}


@pytest.mark.conformance("XB-33", "XB-37")
@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("length", [1, 20, 31, 32, 33, 64, 65, 128, 129, 1000])
def test_who_has_a_salted_password_of_another_length_logs_in_with_it(
    tmp_path: Path, mechanism: ScramMechanism, length: int
) -> None:
    broker = Broker(tmp_path)
    salted = bytes(number % 255 + 1 for number in range(length))
    assert alter(broker, upsertion("anne", mechanism.code, salted_password=salted)) == [("anne", 0)]
    assert logs_in(broker, "anne", mechanism, salted)
    assert not logs_in(broker, "anne", mechanism, salted + b"x")


@pytest.mark.conformance("XB-33", "XB-37")
@pytest.mark.parametrize("length", [0, 1, 255, 256, 1000, 65_536])
def test_who_has_a_salt_of_another_length_logs_in_with_it(tmp_path: Path, length: int) -> None:
    broker = Broker(tmp_path)
    salted = salted_password(SHA_256, "pencil", b"s" * length, 8192)
    assert alter(broker, upsertion("anne", salt=b"s" * length, salted_password=salted)) == [("anne", 0)]
    assert logs_in(broker, "anne", SHA_256, salted, salt=b"s" * length)
    known, unknown = (len(first(broker, name)) for name in ("anne", "nobody"))
    assert known == unknown


@pytest.mark.conformance("XB-33", "XB-37")
@pytest.mark.parametrize("name", [" ", "a\nb", "\x7f", "a,b=c", "n" * 256, "n" * 3000, "ä"])
def test_who_has_an_odd_name_logs_in_with_it(tmp_path: Path, name: str) -> None:
    broker = Broker(tmp_path)
    assert alter(broker, upsertion(name, salted_password=b"salted")) == [(name, 0)]
    assert described(broker) == {name: [(1, 8192)]}
    assert logs_in(broker, name, SHA_256, b"salted")


@pytest.mark.conformance("XB-35")
@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_what_is_worth_as_much_as_the_password_is_kept_nowhere(tmp_path: Path, mechanism: ScramMechanism) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    salted = salted_password(mechanism, "pencil", b"salt", 4096)
    asked = upsertion("anne", mechanism.code, iterations=4096, salt=b"salt", salted_password=salted)
    pending = broker.send(AlterUserScramCredentialsRequest(upsertions=[asked]), 0)
    ((operation, _),) = broker.controller.calls
    assert isinstance(operation, AlterScram)
    assert salted not in [operation.upsertions[0].stored_key, operation.upsertions[0].server_key]
    broker.controller.answer()
    assert pending.response.results[0].error_code == 0
    row = broker.metadata.scram["anne", mechanism.code]
    assert ScramCredential(*row) == ScramCredential.of(mechanism, salted, b"salt", 4096)


@pytest.mark.conformance("XB-31", "XB-36")
def test_who_may_not_is_told_so_and_of_no_user(tmp_path: Path) -> None:
    world = acl_world.World(tmp_path)
    broker = world.broker
    request = AlterUserScramCredentialsRequest(
        deletions=[Deletion(name="zoe", mechanism=1)], upsertions=[upsertion("bert"), upsertion("anne")]
    )
    answer = broker.ask(request, 0)
    assert [(each.user, each.error_code) for each in answer.results] == [("anne", 31), ("bert", 31), ("zoe", 31)]
    told = broker.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    assert (told.error_code, told.results) == (31, [])
    assert broker.controller.operations == []


@pytest.mark.conformance("XB-38")
def test_a_password_that_others_may_have_heard_is_set_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path, listeners="PLAINTEXT://:1,SSL://:2")
    for peer, listener in (("127.0.0.1", "PLAINTEXT"), ("::ffff:127.0.0.1", "PLAINTEXT"), ("10.0.0.7", "SSL")):
        broker.connection.peer, broker.connection.listener = peer, listener
        assert alter(broker, upsertion("anne")) == [("anne", 0)]
    assert logged(caplog) == []
    broker.connection.listener = "PLAINTEXT"
    assert alter(broker, upsertion(""), upsertion("b\nt"), upsertion("bert")) == [("", 93), ("b\nt", 0), ("bert", 0)]
    assert logged(caplog) == [r"the password of 'b\nt', 'bert' came from 10.0.0.7 without encryption"]


def test_what_was_asked_and_not_answered_names_each_user_once(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.controller.prompt = False
    request = AlterUserScramCredentialsRequest(
        deletions=[Deletion(name="zoe", mechanism=1)], upsertions=[upsertion("anne")]
    )
    pending = broker.send(request, 0)
    broker.controller.fail("it has gone")
    assert [(each.user, each.error_code) for each in pending.response.results] == [("anne", 7), ("zoe", 7)]


def test_a_request_about_nobody_is_answered_without_the_controller(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    assert alter(broker) == []
    assert broker.controller.operations == []
