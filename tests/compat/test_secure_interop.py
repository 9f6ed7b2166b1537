"""Other people's clients at three brokers that ask who is there, in TLS, with ACLs: one table for all of them.

Alice has all rights on what is named after her, and no others (secure.py).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import confluent_kafka.admin
import pytest
from aiokafka.helpers import create_ssl_context
from click.testing import CliRunner

from actors.cli.main import cli
from actors.client import Admin
from tests.compat.conftest import Running
from tests.compat.drivers import Aiokafka, Confluent, KafkaPython
from tests.compat.driving import Client, Member, all_closed
from tests.compat.kcat import Kcat
from tests.compat.raw import create_topics
from tests.compat.remote import CONFIGS, TOOLS, Remote, RemoteClient, run_tools
from tests.compat.secure import ADMIN, ALICE, MECHANISMS, Login, SecurePeer
from tests.compat.support import numbered_records, wait_until
from tests.support.tokens import fresh

LARGE = (b"large", b"more than one turn of a loop writes " * 9_000)
RECORDS = [*numbered_records(200), LARGE]
PLAINLY: Mapping[str, Any] = {"compression": "none", "idempotent": False}
HASTY: Mapping[str, Any] = {"bootstrap_timeout_ms": 2_000}
"""kafka-python tries again until then, and says no more than that it did not work."""
REFUSED_LOGIN = re.compile(r"authentication|Unable to bootstrap|brokers to talk to: EOF", re.IGNORECASE)
"""Before SaslAuthenticate, as with sarama, the end of the connection is all that tells."""
REFUSED_TOPIC = re.compile(r"topic.?authorization|not authorized to access this topic|to access topics", re.IGNORECASE)
REFUSED_GROUP = re.compile(r"group.?authorization|not authorized to access this group|to access group", re.IGNORECASE)


def _kafka_python(login: Login) -> Client:
    return KafkaPython(login.python() | HASTY)


def _aiokafka(login: Login) -> Client:
    settings = login.python()
    files = {key.removeprefix("ssl_"): settings.pop(key) for key in [*settings] if key.startswith("ssl_")}
    return Aiokafka({**settings, "ssl_context": create_ssl_context(**files)})


def _kcat(login: Login) -> Client:
    if not (shutil.which("kcat") or shutil.which("kafkacat")):
        pytest.skip("kcat is not installed")
    return Kcat(login.librdkafka())


Make = Callable[[Login], Client]
CLIENTS: dict[str, Callable[[Running[Remote]], Make]] = {
    "confluent-kafka": lambda _: lambda login: Confluent(login.librdkafka()),
    "kafka-python": lambda _: _kafka_python,
    "aiokafka": lambda _: _aiokafka,
    "kcat": lambda _: _kcat,
    "java": lambda remotes: lambda login: RemoteClient("java", remotes.get("java"), login.java()),
    "franz-go": lambda remotes: lambda login: RemoteClient("franz-go", remotes.get("go"), login.go()),
    "sarama": lambda remotes: lambda login: RemoteClient("sarama", remotes.get("go"), login.go()),
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, remotes: Running[Remote]) -> Make:
    return CLIENTS[request.param](remotes)


def _shares(members: list[Member]) -> list[int]:
    return sorted(len(member.owned()) for member in members)


@pytest.mark.conformance("XG-01")
def test_a_group_of_three_who_log_in_in_three_ways_and_a_producer_in_a_fourth(
    secure: SecurePeer, client: Make, name: str
) -> None:
    topic = group = f"alices-{name}"
    by_plain, *others = (client(secure.login(ALICE, mechanism)) for mechanism in MECHANISMS)
    others.append(client(secure.login(ALICE, protocol="SSL")))
    others[0].create_topic(secure.plain, topic, 6)
    members: list[Member] = []
    with all_closed(members):
        members += [each.join(secure.plain, group, topic) for each in others]
        wait_until(lambda: _shares(members) == [2, 2, 2], what="three equal shares")
        members.pop(0).close()
        wait_until(lambda: _shares(members) == [3, 3], what="two equal shares")
        by_plain.produce(secure.plain, topic, RECORDS, **PLAINLY)
        seen = lambda: [record for member in members for record in member.seen()]  # noqa: E731
        wait_until(lambda: len(seen()) >= len(RECORDS), what="all records")
        assert sorted(seen()) == sorted(RECORDS)
        for member in members:
            member.commit()
    with Admin(**secure.settings(ALICE)) as admin:
        offsets = admin.list_consumer_group_offsets(group)
    assert sum(each.offset for each in offsets.values()) == len(RECORDS)


@pytest.mark.conformance("XG-01")
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told(secure: SecurePeer, client: Make, mechanism: str, name: str) -> None:
    right = secure.login(ALICE, mechanism)
    wrong = Login(right.servers, right.protocol, right.cafile, ALICE, "crayon", mechanism, right.own)
    with pytest.raises(Exception, match=REFUSED_LOGIN):  # each library has its own
        client(wrong).produce(secure.plain, f"alices-{name}", RECORDS[:1], **PLAINLY)


@pytest.mark.conformance("XG-01")
def test_what_is_not_allowed_is_told(secure: SecurePeer, client: Make, name: str) -> None:
    create_topics(secure.plain, {name: 1, f"alices-{name}": 1})
    alices = client(secure.login(ALICE))
    with pytest.raises(Exception, match=REFUSED_TOPIC):
        alices.produce(secure.plain, name, RECORDS[:1], **PLAINLY)
    members: list[Member] = []

    def refusal() -> str:
        try:
            members[:] = members or [alices.join(secure.plain, name, f"alices-{name}")]
            members[0].owned()
        except Exception as refused:
            return f"{refused!r} {refused.__cause__!r}"
        return ""

    with all_closed(members):
        assert REFUSED_GROUP.search(wait_until(refusal, what="a refusal"))


@pytest.mark.conformance("XC-73")
@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "java"], indirect=True)
def test_a_pattern_matches_what_may_be_seen(secure: SecurePeer, client: Make, name: str) -> None:
    seen, hidden = f"alices-{name}", f"admins-{name}"
    create_topics(secure.plain, {seen: 2, hidden: 3})
    alices = client(secure.login(ALICE))
    alices.produce(secure.plain, seen, RECORDS, **PLAINLY)
    Confluent().produce(secure.plain, hidden, RECORDS, **PLAINLY)
    pattern = f"(alices|admins)-{name}"
    member = alices.join(secure.plain, seen, pattern if alices.name == "kafka-python" else f"^{pattern}")
    with all_closed([member]):
        wait_until(lambda: len(member.seen()) >= len(RECORDS), what="all records")
        assert sorted(member.seen()) == sorted(RECORDS)
        assert member.owned() == {0, 1}


@pytest.mark.conformance("XG-01")
def test_passwords_are_set_by_librdkafka_and_shown_by_our_command(secure: SecurePeer, tmp_path: Path) -> None:
    admin = confluent_kafka.admin.AdminClient(secure.login(ADMIN).librdkafka())
    made = confluent_kafka.admin
    info = made.ScramCredentialInfo(made.ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = made.UserScramCredentialUpsertion("dave", info, b"brush", b"salt of dave")
    assert admin.alter_user_scram_credentials([upsertion])["dave"].result(30) is None
    found = admin.describe_user_scram_credentials(["dave"])["dave"].result(30)
    assert [each.iterations for each in found.scram_credential_infos] == [4096]

    def users(*arguments: str) -> str:
        config = _properties(tmp_path / "admin.properties", secure.login(ADMIN).java())
        result = CliRunner().invoke(cli, ["users", *arguments, "--command-config", str(config)])
        assert result.exit_code == 0, result.output
        return result.stdout

    assert "dave" in users("list")
    users("delete", "dave")
    assert "dave" not in users("list")


def _properties(path: Path, settings: Mapping[str, str]) -> Path:
    path.touch(0o600)
    path.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
    return path


@pytest.mark.conformance("XG-01", "XB-26")
def test_kafkas_own_tools_log_in_in_every_way(secure: SecurePeer, java: Remote, name: str, tmp_path: Path) -> None:
    bearer = "org.apache.kafka.common.security.oauthbearer"
    java.token.write_text(fresh()[0])
    by_token = {
        "bootstrap.servers": secure.servers["TOKENS"],
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{bearer}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": java.token.as_uri(),
        "sasl.jaas.config": f"{bearer}.OAuthBearerLoginModule required ;",
    }
    ways = [secure.login(ADMIN, mechanism).java() for mechanism in MECHANISMS]
    ways += [secure.login(ADMIN, protocol="SSL").java(), by_token]
    create_topics(secure.plain, {name: 1})
    commands = []
    for number, way in enumerate(ways):
        config = _properties(tmp_path / f"{number}.properties", way)
        shared = ("--bootstrap-server", way["bootstrap.servers"], "--command-config", str(config))
        commands.append((f"{TOOLS}.TopicCommand", *shared, "--list"))
        commands.append((CONFIGS, *shared, "--describe", "--entity-type", "users"))
    printed = run_tools(java, commands)
    assert [each.status for each in printed] == [0] * len(commands), printed
    assert all(name in each.text.split() for each in printed[::2])
    assert all("'alice' are SCRAM-SHA-256=iterations=" in each.text for each in printed[1::2])
