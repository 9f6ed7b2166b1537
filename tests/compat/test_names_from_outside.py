"""As somebody does it who may connect and no more: names that forge lines or move cursors, and floods of denials."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from actors.cli.main import cli
from actors.client import Admin
from actors.security.acl import AclOperation, PatternType
from actors.wire.errors import ErrorCode
from actors.wire.messages import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from tests.compat import peers as peer_module
from tests.compat.peers import Peer
from tests.compat.raw import Raw, serving_coordinator
from tests.compat.support import PATIENT, wait_until
from tests.support.acls import GROUP, allowed
from tests.support.handler_helpers import AUTHORIZER

FORGED = "2026-11-24 10:18:59,123 INFO coterie.audit: allowed 'User:eve' at 10.0.0.7"
EVIL = f"evil\n{FORGED}\r\x1b[2J\x1b]0;owned\x07\u2028{FORGED}\u2029\u202e\x9b31m\x7f"
BEGINS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ (actors|coterie|asyncio)[\w.]*: |  ")
LIMIT = 8_192
CONFIG = {
    "authorizer.class.name": AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
    "coterie.audit.max.bytes.per.principal": str(LIMIT),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with peer_module.coterie(tmp_path_factory.mktemp("names"), 1, config=CONFIG | PATIENT) as running:
        yield running.peer()


def logs(cluster: Peer) -> dict[str, str]:
    assert cluster.data_dir is not None
    return {file.name: file.read_bytes().decode() for file in (cluster.data_dir / "logs").glob("*-*.log")}


def join(raw: Raw, member_id: str = "") -> str:
    """Join the group with a reason; the member id. The answer comes when the others have joined as well."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\0\0\0\0\0")
    request = JoinGroupRequest(
        group_id=EVIL,
        session_timeout_ms=6_000,
        rebalance_timeout_ms=500,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
        reason=EVIL[:255],
    )
    answer = raw.call(request, 9)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        return join(raw, answer.member_id)
    assert answer.error_code == 0
    mine = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=answer.member_id, assignment=b"")]
    sync = SyncGroupRequest(
        group_id=EVIL, generation_id=answer.generation_id, member_id=answer.member_id,
        protocol_type="consumer", protocol_name="range", assignments=mine,
    )  # fmt: skip
    assert raw.call(sync, 5).error_code in (0, ErrorCode.REBALANCE_IN_PROGRESS)
    return str(answer.member_id)


@pytest.fixture(scope="module")
def rebalanced(cluster: Peer) -> Iterator[Peer]:
    """With a group whose every name is evil, and whose rebalances had evil reasons."""
    address = serving_coordinator(cluster.bootstrap_servers, EVIL)
    with Raw(address, EVIL) as first:
        join(first, join(first))
        yield cluster


def test_the_reason_of_a_join_forged_a_line_of_the_audit_log(rebalanced: Peer) -> None:
    wait_until(lambda: "ended generation" in logs(rebalanced)["shards-of-0.log"], what="a rebalance in the log")
    for name, text in logs(rebalanced).items():
        assert [c for c in text if not (c.isprintable() or c == "\n")] == [], name
        assert [line for line in text.splitlines() if not BEGINS.match(line)] == [], name
        assert not any(line.startswith(FORGED) for line in text.splitlines()), name
    assert r"evil\n2026-11-24" in logs(rebalanced)["shards-of-0.log"]


@pytest.mark.parametrize(
    "command",
    [("list",), ("describe", EVIL), ("describe", EVIL, "--members", "--verbose"), ("describe", EVIL, "--state")],
)
def test_names_of_a_group_reached_the_terminal_raw(rebalanced: Peer, command: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, ["groups", *command, "--bootstrap-server", rebalanced.bootstrap_servers])
    assert done.exit_code == 0, done.output
    assert r"evil\n2026-11-24" in done.output
    assert [c for c in done.output if not (c.isprintable() or c == "\n")] == []
    assert not any(line.startswith(FORGED) for line in done.output.splitlines())


def test_a_login_without_rights_wrote_the_audit_log_full(cluster: Peer) -> None:
    with contextlib.closing(Admin(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        admin.create_acls([allowed(AclOperation.READ, GROUP, "secret-", by="User:other", pattern=PatternType.PREFIXED)])
    with Raw(cluster.bootstrap_servers.split(",")[0]) as raw:

        def denied(number: int) -> bool:
            request = HeartbeatRequest(group_id=f"secret-{number}" + "x" * 200, member_id="m")
            return bool(raw.call(request, 4).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED)

        wait_until(lambda: denied(0), what="the ACL at the broker")
        assert all(denied(number) for number in range(1, 1_001))
    assert cluster.data_dir is not None
    file: Path = cluster.data_dir / "logs" / "audit-of-0.log"
    assert 0 < file.stat().st_size <= 2 * (LIMIT + 1_024), "one minute, or two if it ended meanwhile"
    assert file.stat().st_mode & 0o077 == 0
    assert "denied" in file.read_text()
