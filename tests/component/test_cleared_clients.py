"""A broker's notes on a client, so as not to judge each of its requests: their cost, and their end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actors.client import Admin
from actors.security.acl import ANYBODY, Acl, AclFilter, AclOperation, PatternType, PermissionType
from actors.security.authorizer import Authorizer
from actors.wire import messages as m
from actors.wire.errors import ErrorCode
from tests.support.acl_world import RELAYED, World
from tests.support.acls import GROUP, TOPIC, allowed, forbidden
from tests.support.handler_helpers import AUTHORIZER
from tests.support.one_broker import world
from tests.support.runtime_helpers import until

READ, DELETE, DESCRIBE, ALL = AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE, AclOperation.ALL
DENIED = ErrorCode.GROUP_AUTHORIZATION_FAILED
EVERYTHING = (allowed(ALL, GROUP, "*"), allowed(ALL, TOPIC, "*"))
PREFIXED = PatternType.PREFIXED


def heartbeat(group: str = "g") -> m.HeartbeatRequest:
    return m.HeartbeatRequest(group_id=group)


def commit(*topics: str, group: str = "g") -> m.OffsetCommitRequest:
    r = m.OffsetCommitRequest
    partition = r.OffsetCommitRequestPartition(committed_metadata="")
    return r(group_id=group, topics=[r.OffsetCommitRequestTopic(name=t, partitions=[partition]) for t in topics])


def deletion(*topics: str, group: str = "g") -> m.OffsetDeleteRequest:
    r = m.OffsetDeleteRequest
    parts = [r.OffsetDeleteRequestPartition()]
    return r(group_id=group, topics=[r.OffsetDeleteRequestTopic(name=t, partitions=parts) for t in topics])


class Watched:
    """A part of a broker that notes what of it is looked for."""

    def __init__(self, part: Any) -> None:
        self.part = part
        self.looks: list[str] = []

    def __getattr__(self, name: str) -> Any:
        self.looks.append(name)
        return getattr(self.part, name)


def watched(w: World) -> Watched:
    """The authorizer of the world's broker."""
    found: Any = Watched(w.broker.context.authorizer)
    w.broker.context.authorizer = found
    return found  # type: ignore[no-any-return]


UNRESTRICTED: Any = (
    {"super_users": "User:ANONYMOUS"},
    {"acls": EVERYTHING},
    {"acls": [allowed(READ, GROUP, "*", by=ANYBODY), allowed(READ, TOPIC, "*", by=ANYBODY), *EVERYTHING]},
    {"allow_everyone_if_no_acl_found": "true"},
)


@pytest.mark.conformance("XC-82", "XC-88")
@pytest.mark.parametrize("settings", UNRESTRICTED)
def test_of_who_may_do_everything_one_look_is_all_that_a_request_costs(tmp_path: Path, settings: Any) -> None:
    """From the second request of an API on, whatever the group."""
    w = World(tmp_path, **settings)
    asked = ((heartbeat, 4), (lambda group: commit("t", group=group), 8), (lambda group: deletion("t", group=group), 0))
    for request, version in asked:
        assert w.ask(request("g"), version) == RELAYED
    authorizer = watched(w)
    for request, version in asked:
        for group in ("g", "other", "third"):
            assert w.ask(request(group), version) == RELAYED
    assert authorizer.looks == ["edition"] * 9


@pytest.mark.conformance("XC-81")
def test_a_member_is_judged_once_for_its_group(tmp_path: Path) -> None:
    w = World(tmp_path, [allowed(READ, GROUP, "team-", pattern=PREFIXED), allowed(READ, TOPIC, "*")])
    for request, version in ((heartbeat("team-a"), 4), (commit("t", group="team-a"), 8)):
        assert w.ask(request, version) == RELAYED
        authorizer = watched(w)
        assert w.ask(request, version) == RELAYED
        assert "allows" not in authorizer.looks
    assert w.ask(heartbeat("other"), 4).error_code == DENIED, "what is noted of one group counts for no other"
    assert w.ask(deletion("t", group="team-a"), 0).error_code == DENIED, "nor for another API"


@pytest.mark.conformance("XC-34")
def test_topics_are_judged_each_time_where_some_are_restricted(tmp_path: Path) -> None:
    w = World(tmp_path, [allowed(READ, GROUP, "*"), allowed(READ, TOPIC, "t")], ["t", "secret"])
    assert w.ask(commit("t"), 8) == RELAYED
    answer = w.ask(commit("secret"), 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


DENIALS: Any = (
    [forbidden(READ, GROUP, "g")],
    [forbidden(ALL, GROUP, "*")],
    [forbidden(READ, GROUP, "g", by=ANYBODY)],
    [Acl(GROUP, "g", PREFIXED, ANYBODY, "127.0.0.1", READ, PermissionType.DENY)],
)


@pytest.mark.conformance("XC-21", "XC-87")
@pytest.mark.parametrize("denial", DENIALS)
def test_a_denial_counts_for_the_next_request_of_who_could_do_everything(tmp_path: Path, denial: list[Acl]) -> None:
    w = World(tmp_path, EVERYTHING)
    for _ in range(2):
        assert w.ask(heartbeat(), 4) == RELAYED
        w.broker.allow(*EVERYTHING, *denial)
        assert w.ask(heartbeat(), 4).error_code == DENIED
        w.broker.allow(*EVERYTHING)


@pytest.mark.conformance("XC-21", "XC-87")
def test_a_right_that_is_taken_is_missing_at_the_next_request(tmp_path: Path) -> None:
    w = World(tmp_path, EVERYTHING)
    assert w.ask(heartbeat(), 4) == RELAYED
    w.broker.allow(allowed(READ, GROUP, "h"), EVERYTHING[1])
    assert w.ask(heartbeat(), 4).error_code == DENIED
    assert w.ask(heartbeat("h"), 4) == RELAYED
    w.broker.allow()
    assert w.ask(heartbeat("h"), 4).error_code == DENIED


@pytest.mark.conformance("XC-34", "XC-87")
def test_a_denied_topic_counts_for_the_next_commit_of_who_could_read_all(tmp_path: Path) -> None:
    w = World(tmp_path, EVERYTHING)
    assert w.ask(commit("t"), 8) == RELAYED
    w.broker.allow(*EVERYTHING, forbidden(READ, TOPIC, "t"))
    answer = w.ask(commit("t"), 8)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.conformance("XC-01")
def test_the_first_acl_of_anybody_ends_what_everyone_could_do(tmp_path: Path) -> None:
    w = World(tmp_path, allow_everyone_if_no_acl_found="true")
    assert w.ask(heartbeat(), 4) == RELAYED
    w.broker.allow(allowed(READ, GROUP, "g", by="User:other"))
    assert w.ask(heartbeat(), 4).error_code == DENIED
    assert w.ask(heartbeat("h"), 4) == RELAYED


@pytest.mark.conformance("XA-56")
def test_who_is_somebody_else_is_judged_anew(tmp_path: Path) -> None:
    """A second login keeps the principal; but no note may depend on that."""
    w = World(tmp_path, super_users="User:admin")
    w.connection.principal = "User:admin"
    assert w.ask(heartbeat(), 4) == RELAYED
    w.connection.principal = "User:ann"
    assert w.ask(heartbeat(), 4).error_code == DENIED
    w.connection.principal = "User:admin"
    assert w.ask(heartbeat(), 4) == RELAYED


def test_a_change_that_fails_half_way_leaves_nothing_noted(tmp_path: Path) -> None:
    w = World(tmp_path, EVERYTHING)
    assert w.ask(heartbeat(), 4) == RELAYED
    authorizer: Any = w.broker.context.authorizer

    def change(added: Iterable[Acl], removed: Iterable[Acl]) -> None:
        Authorizer.change(rules, (), removed)
        raise RuntimeError

    rules = authorizer.rules
    rules.change = change
    with pytest.raises(RuntimeError):
        w.broker.allow()
    assert w.ask(heartbeat(), 4).error_code == DENIED


@pytest.mark.conformance("XC-09")
def test_while_the_log_has_what_is_allowed_every_request_is_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "coterie.audit")
    w = World(tmp_path, super_users="User:ANONYMOUS")
    for _ in range(4):
        w.ask(heartbeat(), 4)
    w.broker.loop.now += 1.0
    w.ask(heartbeat(), 4)
    said = [record.getMessage() for record in caplog.records if record.name == "coterie.audit"]
    assert said[0].startswith("allowed 'User:ANONYMOUS' at 127.0.0.1: READ on Group 'g' for Heartbeat")
    assert said[1].endswith("3 more times")


def test_who_makes_up_groups_fills_no_memory(tmp_path: Path) -> None:
    w = World(tmp_path, [allowed(READ, GROUP, "g", pattern=PREFIXED)])
    for number in range(300):
        assert w.ask(heartbeat(f"g{number}"), 4) == RELAYED
    assert w.ask(heartbeat("g" * 20_000), 4) == RELAYED
    groups = [key[1] for key in w.connection.cleared if isinstance(key, tuple)]
    assert 0 < len(groups) <= 64
    assert max(map(len, groups)) < 300


def some_acl(chance: random.Random) -> Acl:
    kind, pattern = chance.choice((GROUP, TOPIC)), chance.choice((PatternType.LITERAL, PREFIXED))
    name = chance.choice(("*", "a", "ab", "b") if pattern is PatternType.LITERAL else ("a", "ab", "b"))
    by, at = chance.choice(("User:ann", "User:ben", ANYBODY)), chance.choice(("*", "127.0.0.1", "10.0.0.9"))
    permission = chance.choice((*[PermissionType.ALLOW] * 5, PermissionType.DENY))
    return Acl(kind, name, pattern, by, at, chance.choice((READ, DELETE, DESCRIBE, ALL)), permission)


@pytest.mark.conformance("XG-05")
@pytest.mark.parametrize("seed", range(6))
def test_what_goes_on_to_shards_is_what_is_allowed_whatever_changes(tmp_path: Path, seed: int) -> None:
    """Clients, ACLs and requests at random; each is compared with an authorizer that knows nothing of before."""
    chance = random.Random(seed)
    everyone = chance.random() < 0.3
    w = World(tmp_path, topics=["a", "ab", "b"], allow_everyone_if_no_acl_found=str(everyone).lower())
    connections = [w.broker.connect() for _ in range(3)]
    acls: set[Acl] = set()
    went_on = 0
    for _ in range(1500):
        if chance.random() < 0.1:
            acls ^= {some_acl(chance) for _ in range(chance.randint(1, 3))}
            if len(acls) > 20:
                acls.clear()
            w.broker.allow(*acls)
        w.connection = chance.choice(connections)
        if chance.random() < 0.05 or w.connection.principal == "User:ANONYMOUS":
            w.connection.principal = chance.choice(("User:ann", "User:ben"))
        group, topic = chance.choice(("a", "ab", "b", "c")), chance.choice(("a", "ab", "b"))
        request, version, right = chance.choice(
            (
                (heartbeat(group), 4, READ),
                (commit(topic, group=group), 8, READ),
                (deletion(topic, group=group), 0, DELETE),
            )
        )
        fresh = Authorizer(acls, allow_everyone=everyone)
        who = w.connection.principal, "127.0.0.1"
        expected = fresh.allows(*who, right, GROUP, group)
        if not isinstance(request, m.HeartbeatRequest):
            expected = expected and fresh.allows(*who, READ, TOPIC, topic)
        assert (w.ask(request, version) == RELAYED) is expected
        went_on += expected
    assert 50 < went_on < 1450, "both happen"


@pytest.mark.conformance("XC-21", "XC-87")
async def test_an_acl_that_was_answered_is_in_force_for_the_requests_that_come_then(tmp_path: Path) -> None:
    """A real broker and controller. Requests before the change is answered may be judged by old or new rights."""
    by = "User:member"
    rights = [allowed(ALL, GROUP, "*", by=by), allowed(ALL, TOPIC, "*", by=by)]
    denial, found = forbidden(READ, GROUP, "g", by=by), AclFilter(permission=PermissionType.DENY)
    async with world(tmp_path, authorizer_class_name=AUTHORIZER, super_users="User:ANONYMOUS") as w:
        member = await w.client()
        await until(lambda: len(w.server.clients) == 1)
        (connection,) = w.server.clients
        connection.principal = by

        async def codes() -> set[int]:
            member.send(*[(heartbeat(), 4)] * 50)
            return {(await member.answer()).error_code for _ in range(50)}

        admin = await asyncio.to_thread(Admin, bootstrap_servers=f"127.0.0.1:{w.server.port}")
        try:
            await asyncio.to_thread(admin.create_acls, rights)
            for _ in range(5):
                assert DENIED not in await codes()
                await asyncio.to_thread(admin.create_acls, [denial])
                assert await codes() == {DENIED}
                await asyncio.to_thread(admin.delete_acls, [found])
        finally:
            await asyncio.to_thread(admin.close)
