"""Commands at brokers that want another protocol, and at topics that do not exist: one line, at once, with the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli.main import cli
from actors.wire import messages as m
from tests.support.answering import TLS_ALERT, answering
from tests.support.client_broker import ScriptedBroker, broker

COMMANDS = (
    ("topics", "list"),
    ("topics", "describe", "t"),
    ("topics", "create", "t"),
    ("topics", "reassign", "t"),
    ("groups", "list"),
    ("groups", "describe", "g"),
    ("users", "list"),
    ("acls", "list"),
    ("pools", "list"),
    ("pools", "describe", "p"),
    ("which", "g"),
    ("produce", "t"),
    ("consume", "t"),
)


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    with broker() as running:
        running.topic("orders")
        yield running


def run(*arguments: str, at: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--bootstrap-server", at], input="")


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_waited_30_seconds_for_a_broker_that_expects_tls(command: tuple[str, ...]) -> None:
    with answering(TLS_ALERT) as port:
        result = run(*command, at=f"127.0.0.1:{port}")
    assert result.exit_code == 1
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"coterie: 127.0.0.1:{port}: the broker expects TLS here")
    assert "--command-config FILE" in line


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_in_tls_waited_30_seconds_for_a_broker_that_speaks_none(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")
    path.chmod(0o600)
    with answering(b"") as port:
        result = run(*command, "--command-config", str(path), at=f"127.0.0.1:{port}")
    assert result.exit_code == 1
    assert "may not speak TLS at this port (security_protocol=PLAINTEXT" in result.stderr.splitlines()[-1]
    assert "--command-config" not in result.stderr, "there is one"


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_a_typo_in_a_topic_became_a_topic(kafka: ScriptedBroker, verb: str) -> None:
    result = run(verb, "oders", at=kafka.bootstrap_servers)
    assert result.exit_code == 1
    assert "there is no topic 'oders'" in result.stderr
    assert ("--create" in result.stderr) == (verb == "produce")
    assert "`coterie topics " in result.stderr, "what to do"


@pytest.mark.parametrize("verb", ["produce", "consume"])
def test_an_illegal_name_was_told_by_its_code_alone(kafka: ScriptedBroker, verb: str) -> None:
    result = run(verb, "a/b", at=kafka.bootstrap_servers)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "'a/b' is illegal: 1 to 249 characters out of letters, digits" in result.stderr


@pytest.mark.parametrize(("verb", "role"), [("produce", "--producer"), ("consume", "--consumer")])
def test_a_topic_that_one_may_not_see_was_told_by_its_code_alone(kafka: ScriptedBroker, verb: str, role: str) -> None:
    topic = m.MetadataResponse.MetadataResponseTopic(error_code=29, name="ordres")
    kafka.script(m.MetadataRequest, *[lambda _: m.MetadataResponse(topics=[topic])] * 20)
    result = run(verb, "ordres", at=kafka.bootstrap_servers)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "there is no topic 'ordres', or this user may not describe it (TOPIC_AUTHORIZATION_FAILED)" in result.stderr
    assert f"`coterie acls add {role} --topic ordres --allow-principal User:NAME`" in result.stderr


def test_records_of_a_compacted_topic_stayed_without_a_reason(kafka: ScriptedBroker) -> None:
    refused = m.DeleteRecordsResponse.DeleteRecordsPartitionResult(partition_index=0, error_code=44)
    topic = m.DeleteRecordsResponse.DeleteRecordsTopicResult(name="orders", partitions=[refused])
    kafka.versions[m.DeleteRecordsRequest] = (0, 2)
    kafka.script(m.DeleteRecordsRequest, lambda _: m.DeleteRecordsResponse(topics=[topic]))
    result = run("topics", "delete-records", "orders:0", "--before-offset", "-1", at=kafka.bootstrap_servers)
    assert result.exit_code == 1
    assert "POLICY_VIOLATION (44): its cleanup.policy is compact alone" in result.stdout


def test_records_go_to_a_topic_that_exists(kafka: ScriptedBroker) -> None:
    result = CliRunner().invoke(cli, ["produce", "orders", "--bootstrap-server", kafka.bootstrap_servers], input="a\n")
    assert (result.exit_code, result.stderr) == (0, "1 record\n")
