"""`--command-config`: the settings of a command's clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from actors.cli import calls, command_config
from actors.cli import consume as consume_module
from actors.cli import produce as produce_module
from actors.cli.errors import CliError
from actors.cli.main import cli
from actors.client.errors import SaslAuthenticationError
from actors.settings.secret import Secret
from tests.support.fake_admin import FakeAdmin

LOGIN = """
# how we log in
security.protocol=SASL_PLAINTEXT
sasl.mechanism=SCRAM-SHA-256
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \\
    username="alice" password="hunter2";
"""
WANTED = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "SCRAM-SHA-256",
    "sasl_plain_username": "alice",
    "sasl_plain_password": Secret("hunter2"),
}


class Made:
    """The settings that the clients of commands are made with; no broker is there."""

    def __init__(self) -> None:
        self.settings: list[dict[str, Any]] = []

    def __call__(self, *_: Any, **settings: Any) -> FakeAdmin:
        self.settings.append(settings)
        return FakeAdmin()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    found = Made()
    monkeypatch.setattr(calls, "check_reachable", lambda _: None)
    for module in (produce_module, consume_module):
        monkeypatch.setattr(module, "check_topic", lambda *_, **__: None)
    for name in ("Admin", "Producer", "Consumer"):
        monkeypatch.setattr(f"actors.client.{name}", found)
    monkeypatch.setattr(FakeAdmin, "close", lambda self: None, raising=False)
    return found


def config(folder: Path, text: str, mode: int = 0o600) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def run(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(cli, arguments, env=variables)


@pytest.mark.conformance("XF-02")
@pytest.mark.parametrize(
    "command", [("topics", "list"), ("groups", "list"), ("which", "g"), ("produce", "t"), ("consume", "t")]
)
def test_every_client_of_a_command_gets_it(made: Made, tmp_path: Path, command: tuple[str, ...]) -> None:
    run(*command, "--command-config", config(tmp_path, LOGIN))
    assert made.settings
    assert made.settings[0].items() >= WANTED.items()


@pytest.mark.conformance("XF-02")
def test_a_variable_names_a_default_file(made: Made, tmp_path: Path) -> None:
    run("topics", "list", COTERIE_COMMAND_CONFIG=config(tmp_path, LOGIN))
    assert made.settings[0].items() >= WANTED.items()


@pytest.mark.conformance("XF-02")
def test_bootstrap_servers_of_the_file_are_those_of_who_names_no_others(made: Made, tmp_path: Path) -> None:
    path = config(tmp_path, "bootstrap.servers=a:1,b:2\nclient.id=me")
    run("topics", "list", "--command-config", path)
    run("topics", "list", "--command-config", path, "--bootstrap-server", "c:3")
    run("topics", "list", "--command-config", path, COTERIE_BOOTSTRAP_SERVER="d:4")
    assert [each["bootstrap_servers"] for each in made.settings] == ["a:1,b:2", "c:3", "d:4"]
    assert {each["client_id"] for each in made.settings} == {"me"}


@pytest.mark.conformance("XF-02")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "\nssl.truststore.locations=/ca",
            "line 2: there is no setting ssl.truststore.locations; did you mean ssl.trust",
        ),
        ("security.protocol=SSL\n\nssl.keystore.type=JKS", "line 3: ssl.keystore.type: JKS: stores are PEM here"),
        ("security.protocol=SASL_SSL", "client.properties: security_protocol=SASL_SSL needs sasl_mechanism"),
        ("=x", "line 1 of the properties file names no setting"),
        ("sasl.passwort=hunter2", "line 1: there is no setting sasl.passwort; did you mean sasl.password"),
    ],
)
def test_a_mistake_is_told_with_file_and_line(made: Made, tmp_path: Path, text: str, words: str) -> None:
    result = run("topics", "list", "--command-config", config(tmp_path, text))
    assert result.exit_code == 1
    assert words in result.stderr
    assert "client.properties" in result.stderr
    assert "hunter2" not in result.output
    assert made.settings == []


@pytest.mark.conformance("XF-02")
def test_what_has_no_meaning_here_is_noted(made: Made, tmp_path: Path) -> None:
    result = run(
        "topics", "list", "--command-config", config(tmp_path, "ssl.keymanager.algorithm=PKIX\ngroup.id=g\nacks=all")
    )
    assert result.exit_code == 0
    assert "ssl.keymanager.algorithm, group.id, acks has no effect on commands" in result.stderr


@pytest.mark.conformance("XF-02", "XE-24")
@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o604, True)])
def test_a_file_that_others_can_read_is_warned_of(made: Made, tmp_path: Path, mode: int, warned: bool) -> None:
    result = run("topics", "list", "--command-config", config(tmp_path, LOGIN, mode))
    assert ("warning: others can read" in result.stderr) == warned


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run("topics", "list", "--command-config", str(tmp_path / "nothing"))
    assert result.exit_code == 1
    assert f"--command-config {tmp_path}/nothing: No such file or directory" in result.stderr


def test_a_refused_login_did_not_name_the_file_that_has_it(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    with click.Context(click.Command("topics")) as context:
        command_config.use(context, {"security_protocol": "SASL_SSL"}, path)
        with pytest.raises(CliError, match=f"check sasl_plain_password in --command-config {path}$"), calls.hinting():
            raise SaslAuthenticationError("it is wrong; check sasl_plain_password")
