"""`coterie users` against a cluster in memory, and in a data directory: SECURITY.md, B.6."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from actors.cli import calls, command_config
from actors.cli.main import cli
from actors.cli.users import ask_passwords
from actors.controller.first_users import log_path
from actors.controller.metadata.standalone import StandaloneLog
from actors.security.plain import fits
from actors.security.scram import ScramCredential, ScramMechanism
from actors.settings.secret import Secret
from tests.support.fake_admin import FakeAdmin


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeAdmin:
    fake = FakeAdmin()
    fake.users = {"bob": {"SCRAM-SHA-512": 4096}, "anne": {"SCRAM-SHA-512": 8192, "SCRAM-SHA-256": 4096}}
    monkeypatch.setattr(calls, "connect", fake.connect)
    return fake


def run(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["users", *arguments], input=stdin)


@pytest.mark.conformance("XB-43")
def test_list_shows_who_has_a_password_for_what(cluster: FakeAdmin) -> None:
    assert run("list").stdout.splitlines() == [
        "USER  MECHANISM      ITERATIONS",
        "anne  SCRAM-SHA-256  4096",
        "anne  SCRAM-SHA-512  8192",
        "bob   SCRAM-SHA-512  4096",
    ]
    assert json.loads(run("list", "--format", "json").stdout)[2] == {
        "user": "bob",
        "mechanism": "SCRAM-SHA-512",
        "iterations": 4096,
    }


@pytest.mark.conformance("XE-24")
@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o644, True)])
def test_a_password_file_that_others_can_read_is_warned_of(
    cluster: FakeAdmin, tmp_path: Path, mode: int, warned: bool
) -> None:
    path = tmp_path / "password"
    path.write_text("crayon\n")
    path.chmod(mode)
    said = run("set", "carl", "--password-file", str(path))
    assert said.exit_code == 0
    assert ("warning: others can read" in said.stderr) is warned


@pytest.mark.conformance("XE-24")
@pytest.mark.parametrize(
    ("user", "warning"),
    [
        ("password=pencil", "warning: the password of carl stands in the list of processes"),
        ("password-file={}", "warning: others can read {}"),
        ("password=-", ""),
    ],
)
def test_a_first_users_password_is_best_asked_for(tmp_path: Path, user: str, warning: str) -> None:
    path = tmp_path / "password"
    path.write_text("crayon\n")
    path.chmod(0o644)

    @click.command()
    def asking() -> None:
        ask_passwords([f"SCRAM-SHA-256=[name=carl,{user.format(path)}]"])

    said = CliRunner().invoke(asking, input="pencil\n")
    assert said.exit_code == 0
    assert said.stderr.startswith(warning.format(path))
    assert bool(said.stderr) is bool(warning)
    assert "pencil" not in said.output


@pytest.mark.conformance("XB-43")
def test_set_reads_the_password_and_prints_nothing_of_it(cluster: FakeAdmin, tmp_path: Path) -> None:
    first = run("set", "carl", stdin="pencil\nnot this\n")
    (tmp_path / "password").write_text("crayon\n")
    second = run(
        *("set", "carl", "--mechanism", "SCRAM-SHA-512", "--iterations", "16384"),
        *("--password-file", str(tmp_path / "password")),
    )
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.stderr == "set the password of carl for SCRAM-SHA-256 and SCRAM-SHA-512\n"
    assert "pencil" not in first.output
    made = [(each.user, each.password, each.mechanism.wire_name, each.iterations) for each in cluster.passwords]
    assert made == [
        ("carl", Secret("pencil"), "SCRAM-SHA-256", 8192),
        ("carl", Secret("pencil"), "SCRAM-SHA-512", 8192),
        ("carl", Secret("crayon"), "SCRAM-SHA-512", 16384),
    ]


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["set", "carl"], "", "no password: give --password-file"),
        (["set", ""], "pencil", "a user's name cannot be empty"),
        (["set", "carl", "--iterations", "4095"], "pencil", "4096<=x<=16384"),
        (["set", "carl", "--mechanism", "PLAIN"], "pencil", "is not one of"),
        (["set", "carl", "--offline", "."], "pencil", "is no data directory of a cluster"),
        (["delete", "carl"], "", "there is no user carl"),
        (["delete", "bob", "--mechanism", "SCRAM-SHA-256"], "", "no user bob with a password for SCRAM-SHA-256"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(
    cluster: FakeAdmin, arguments: list[str], stdin: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments, stdin=stdin)
    assert done.exit_code != 0
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert "pencil" not in done.output
    assert cluster.passwords == []


@pytest.mark.conformance("XB-43")
def test_delete_forgets_all_or_one(cluster: FakeAdmin) -> None:
    assert run("delete", "anne", "--mechanism", "SCRAM-SHA-256").exit_code == 0
    assert cluster.users["anne"] == {"SCRAM-SHA-512": 8192}
    cluster.users["anne"]["SCRAM-SHA-256"] = 4096
    assert run("delete", "anne").stderr == "deleted anne\n"
    assert cluster.users["anne"] == {}


@pytest.mark.conformance("XB-42")
def test_who_has_locked_himself_out_sets_his_password_while_the_cluster_is_down(tmp_path: Path) -> None:
    log = StandaloneLog(log_path(tmp_path), lock_timeout_s=0.0)
    in_use = run("set", "anne", "--offline", str(tmp_path), stdin="pencil")
    assert in_use.exit_code == 1
    assert "is in use" in in_use.stderr
    log.close()
    done = run("set", "anne", "--offline", str(tmp_path), stdin="pencil")
    assert done.stderr == f"set the password of anne for SCRAM-SHA-256 and SCRAM-SHA-512 in {tmp_path}\n"
    log = StandaloneLog(log_path(tmp_path), lock_timeout_s=0.0)
    row = log.committed.scram["anne", 1]
    log.close()
    assert fits("pencil", ScramMechanism.SHA_256, ScramCredential(*row))


ADMINS = """\
security.protocol=SASL_SSL
sasl.mechanism=SCRAM-SHA-512
sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="secret";
ssl.truststore.type=PEM
ssl.truststore.location=/data/ca.pem
ssl.keystore.location=/data/admin.pem
"""


def _read(path: Path) -> dict[str, Any]:
    """The settings that our commands read from a file."""
    return command_config.read(path)


@pytest.mark.parametrize("password", ["pencil", 'a"b\\c', "häß=lich;#!", " blank ", "😀"])
def test_a_user_had_to_write_his_own_properties_file(cluster: FakeAdmin, tmp_path: Path, password: str) -> None:
    admins, own, given = tmp_path / "admin", tmp_path / "carl.properties", tmp_path / "password"
    admins.write_text(ADMINS)
    admins.chmod(0o600)
    given.write_text(password + "\n")
    given.chmod(0o600)
    said = run(
        *("set", "carl", "--password-file", str(given), "--write", str(own)),
        *("--command-config", str(admins), "--bootstrap-server", "broker:9192"),
    )
    assert said.exit_code == 0, said.output
    assert said.stderr.endswith(f"carl logs in by --command-config {own}\n")
    assert own.stat().st_mode & 0o777 == 0o600
    assert "secret" not in own.read_text(), "the administrator's"
    assert "admin.pem" not in own.read_text(), "the administrator's certificate"
    assert _read(own) == {
        "bootstrap_servers": "broker:9192",  # else the user's commands go to port 9092
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "/data/ca.pem",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "carl",
        "sasl_plain_password": Secret(password),
    }


def test_a_file_that_is_there_is_not_written_over_and_no_password_is_set(cluster: FakeAdmin, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("another's")
    said = run("set", "carl", "--write", str(own), stdin="pencil\n")
    assert said.exit_code == 1
    assert "exists: name another file" in said.stderr
    assert (own.read_text(), cluster.passwords) == ("another's", [])


def test_a_user_of_brokers_without_tls_gets_a_file_for_these(cluster: FakeAdmin, tmp_path: Path) -> None:
    own = tmp_path / "own"
    mechanism = ("--mechanism", "SCRAM-SHA-256")
    assert run("set", "carl", *mechanism, "--write", str(own), stdin="pencil\n").exit_code == 0
    found = _read(own)
    assert (found["security_protocol"], found["sasl_mechanism"]) == ("SASL_PLAINTEXT", "SCRAM-SHA-256")
