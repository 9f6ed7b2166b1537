"""ACLs on Apache Kafka and on Coterie: other people's clients and our own make them, and both deny the same.

In these clusters everybody may do what no ACL is about. So a test gives another user an ACL, which denies all others.
"""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from actors.cli.main import cli
from actors.client import Admin
from actors.client.admin.types import NewTopic
from actors.security import acl as ours
from actors.security.acl import Acl, AclFilter
from actors.wire.api_keys import ApiKey
from actors.wire.messages import OffsetCommitRequest, OffsetFetchRequest
from tests.compat import named_peers
from tests.compat.peers import Peer, UnavailableError
from tests.compat.raw import Raw, api_versions, serving_coordinator
from tests.compat.remote import TOOLS, Remote, run_tools
from tests.compat.support import PATIENT, wait_until
from tests.support.acl_rows import (
    DENIALS,
    NOT_SERVED,
    PASSES,
    ROWS,
    Row,
    describe_users,
    error_codes,
    follower,
    init_producer_id,
    transactional_produce,
)
from tests.support.acls import CLUSTER, GROUP, TOPIC, TRANSACTIONAL_ID, allowed
from tests.support.handler_helpers import AUTHORIZER

OTHER = "User:other"
CONFIG = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
ALL, READ = ours.AclOperation.ALL, ours.AclOperation.READ


@pytest.fixture(scope="module", params=["kafka", "coterie"])
def guarded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    folder: Path = tmp_path_factory.mktemp(f"acls-{request.param}")
    more = PATIENT if request.param == "coterie" else {}
    try:
        with named_peers.start(request.param, folder, CONFIG | more) as peer:
            yield peer
    except UnavailableError as reason:
        pytest.skip(f"{request.param} cannot run here: {reason}")


@pytest.fixture
def admin(guarded: Peer) -> Iterator[Admin]:
    with contextlib.closing(Admin(bootstrap_servers=guarded.bootstrap_servers)) as made:
        yield made


def test_acls_made_by_one_client_are_found_by_the_others(guarded: Peer, admin: Admin) -> None:
    theirs = AdminClient({"bootstrap.servers": guarded.bootstrap_servers})
    by_them = AclBinding(
        ResourceType.TOPIC, "made-by", ResourcePatternType.PREFIXED, "User:a", "10.0.0.1",
        AclOperation.READ, AclPermissionType.DENY,
    )  # fmt: skip
    for future in theirs.create_acls([by_them]).values():
        future.result(30)
    by_us = allowed(READ, TOPIC, "made-by-us", by="User:b")
    assert admin.create_acls([by_us]) == {by_us: None}
    wanted = AclFilter(TOPIC, "made-by-us", ours.PatternType.MATCH)
    expected = {
        by_us,
        Acl(TOPIC, "made-by", ours.PatternType.PREFIXED, "User:a", "10.0.0.1", READ, ours.PermissionType.DENY),
    }
    wait_until(lambda: set(admin.describe_acls(wanted)) == expected, what="both ACLs at every broker")
    everything = AclBindingFilter(
        ResourceType.TOPIC, "made-by-us", ResourcePatternType.MATCH, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert len(theirs.describe_acls(everything).result(30)) == 2
    listed = CliRunner().invoke(
        cli,
        ["acls", "list", "--bootstrap-server", guarded.bootstrap_servers, "--topic", "made-by-us", "--format", "json",
         "--resource-pattern-type", "match"],
    )  # fmt: skip
    assert sorted(row["principal"] for row in json.loads(listed.output)) == ["User:a", "User:b"]
    gone = admin.delete_acls([wanted])
    assert {*gone[wanted]} == expected  # type: ignore[misc]


def test_kafkas_own_tool(guarded: Peer, java: Remote) -> None:
    tool = (f"{TOOLS}.AclCommand", "--bootstrap-server", guarded.bootstrap_servers)
    topic = ("--topic", "by-tool", "--resource-pattern-type", "prefixed")
    who = ("--allow-principal", "User:x", "--allow-host", "10.0.0.1", "--operation", "Read", "--operation", "Describe")
    printed = run_tools(
        java,
        [
            (*tool, "--add", *who, *topic),
            (*tool, "--list", *topic),
            (*tool, "--remove", *who[:6], *topic, "--force"),
            (*tool, "--list", *topic),
            (*tool, "--add", "--allow-principal", "User:x", "--operation", "Read", "--cluster", "--topic", "by-tool"),
        ],
    )
    rule = "(principal=User:x, host=10.0.0.1, operation={}, permissionType=ALLOW)"
    assert "ResourcePattern(resourceType=TOPIC, name=by-tool, patternType=PREFIXED)" in printed[1].text
    assert rule.format("READ") in printed[1].text
    assert rule.format("DESCRIBE") in printed[1].text
    assert rule.format("READ") not in printed[3].text
    assert rule.format("DESCRIBE") in printed[3].text
    assert [each.status for each in printed] == [0, 0, 0, 0, 1], "the last one is refused by the tool itself"


def test_what_is_no_acl_is_refused_by_both(admin: Admin) -> None:
    nameless = allowed(READ, TOPIC, "", by=OTHER)
    misnamed = allowed(READ, CLUSTER, "other-cluster", by=OTHER)
    for outcome in admin.create_acls([nameless, misnamed], raise_errors=False).values():
        assert outcome is not None
        assert outcome.code is None or outcome.code == 42
        assert "INVALID_REQUEST" in str(outcome)


@pytest.mark.conformance("XC-18")
@pytest.mark.parametrize("key", [ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS])
def test_the_version_without_patterns_is_served_by_neither(guarded: Peer, key: ApiKey) -> None:
    address = guarded.bootstrap_servers.split(",")[0]
    assert api_versions(address)[key][0] == 1
    with Raw(address) as raw:
        request = struct.pack(">hhih", key, 0, 1, -1) + b"\x01\xff\xff\xff\xff\xff\xff\x01\x01"
        raw.socket.sendall(struct.pack(">i", len(request)) + request)
        with pytest.raises((EOFError, ConnectionError)):
            raw.read_frame()


def test_a_consumer_of_two_topics_of_which_one_is_not_its_own(guarded: Peer, admin: Admin) -> None:
    servers = guarded.bootstrap_servers
    admin.create_topics([NewTopic("mine-1", 1, 1), NewTopic("secret-1", 1, 1)])
    admin.create_acls(
        [
            allowed(ALL, TOPIC, "mine-", pattern=ours.PatternType.PREFIXED),
            allowed(ALL, TOPIC, "secret-1", by=OTHER),
            allowed(READ, GROUP, "guarded-readers"),
        ]
    )
    commit = OffsetCommitRequest(
        group_id="guarded-readers",
        generation_id_or_member_epoch=-1,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic, partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=1)]
            )
            for topic in ("mine-1", "secret-1")
        ],
    )
    fetch = OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id="guarded-readers",
                topics=[
                    OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[0])
                    for topic in ("mine-1", "secret-1")
                ],
            )
        ]
    )
    with Raw(serving_coordinator(servers, "guarded-readers")) as raw:
        committed = raw.call(commit, 8)
        assert {t.name: t.partitions[0].error_code for t in committed.topics} == {"mine-1": 0, "secret-1": 29}
        found = {t.name: t.partitions[0] for t in raw.call(fetch, 8).groups[0].topics}
        assert {name: (p.error_code, p.committed_offset) for name, p in found.items()} == {
            "mine-1": (0, 1),
            "secret-1": (29, -1),
        }
        admin.create_acls([allowed(READ, GROUP, "others-readers", by=OTHER)])
        fetch.groups[0].group_id = "others-readers"
        wait_until(lambda: raw.call(fetch, 8).groups[0].error_code == 30, what="the ACL at the broker")
    assert "secret-1" not in admin.list_topics()


# --- the walk, at a Kafka ---

HAS = frozenset(("CLUSTER_ACTION Cluster",))
"""The right that this client keeps: a Kafka's own connection has no user either."""


_OTHERWISE = (
    transactional_produce,  # its records are not transactional: Kafka checks that
    follower,  # with CLUSTER_ACTION it needs no READ in Kafka, whose brokers fetch so from one another
    init_producer_id,  # it needs some topic that the user may write to: one without ACLs will do
    describe_users,  # Kafka does not answer a denial where all users are asked for
)


def _denials(versions: dict[int, tuple[int, int]]) -> Iterator[tuple[Row, int, list[int]]]:
    """The requests that the table denies whether the resource exists or not, their versions, and the error codes.

    Topics by their ids are left out: the ids are others here.
    """
    for row in ROWS:
        first, last = versions.get(int(row.key), (1, 0))
        for version in row.each():
            expected = row.codes(HAS, version, True)
            if (
                first <= version <= last
                and expected == row.codes(HAS, version, False) != PASSES
                and DENIALS & set(expected)
                and row not in NOT_SERVED
                and row.request not in _OTHERWISE
            ):
                yield row, version, [*expected]  # type: ignore[list-item]


def test_both_deny_what_the_table_says(guarded: Peer, admin: Admin) -> None:
    admin.create_topics([NewTopic("t", 1, 1)])
    admin.create_acls(
        [
            allowed(ours.AclOperation.CLUSTER_ACTION, CLUSTER),
            allowed(ALL, TOPIC, "t", by=OTHER),
            *(allowed(ALL, GROUP, name, by=OTHER) for name in ("g", "nobody's")),
            allowed(ALL, TRANSACTIONAL_ID, "x", by=OTHER),
        ]
    )
    address = guarded.bootstrap_servers.split(",")[0]
    wait_until(lambda: _codes(address, ROWS[0], 9) == [29], what="the ACLs at the broker")
    found = [
        (row.key.name, version, codes, expected)
        for row, version, expected in _denials(api_versions(address))
        if (codes := _codes(address, row, version)) != expected
    ]
    assert found == []


def _codes(address: str, row: Row, version: int) -> list[int] | str:
    try:
        with Raw(address, timeout_s=10) as raw:
            return error_codes(raw.call(row.request(version), version))
    except OSError as error:
        return type(error).__name__
