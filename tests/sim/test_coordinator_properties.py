"""Random histories of a shard: requests, appends that succeed, fail, come late or get lost, time, failover."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from actors.coordinator.classic.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
    SyncGroupRequest,
)
from actors.coordinator.group_types import GROUP_TYPES
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import (
    DeleteGroupsRequest,
    DeleteTopicOffsetsRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)
from actors.coordinator.groups.types import GroupType
from actors.coordinator.turn import Request
from tests.support.coordination import Driver, subscription
from tests.support.coordination_invariants import Witness, assert_consistent
from tests.support.offset_rows import commit_request
from tests.support.tiny_groups import TYPES, Beat, Enter, Leave, TinyGroup, TinyState

CONFIG = CoordinatorConfig(
    group_initial_rebalance_delay_ms=500,
    group_max_size=4,
    offsets_retention_minutes=1,
    offsets_retention_check_interval_ms=20_000,
    max_message_bytes=2_000,
)
MEMBERS = st.integers(0, 4)
GROUPS = st.sampled_from(["g", "h"])
TINY_GROUPS = st.sampled_from(["h", "s"])
PROTOCOLS = st.sampled_from(
    [
        (("range", subscription("t")),),
        (("range", subscription("t")), ("sticky", b"x")),
        (("sticky", b"x"), ("range", subscription("u"))),
    ]
)
WAITS = st.sampled_from([0, 1, 400, 500, 2_999, 5_000, 6_000, 10_000, 61_000])
INSTANCES = {3: "i3", 4: "i4"}
"""Members 3 and 4 are static."""


class ShardMachine(RuleBasedStateMachine):
    types: Sequence[GroupType] = GROUP_TYPES

    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver(CONFIG, types=self.types)
        self.driver.holds = True
        self.witness = Witness(self.driver)
        self.asked: list[int] = []
        self.dropped: set[int] = set()
        self.ids: dict[tuple[str, int], str] = {}
        self.joins: dict[int, tuple[str, int]] = {}
        self.generations: dict[tuple[str, int], int] = {}
        self.offsets = 0
        self.epoch = 0

    # -- requests

    def ask(self, request: Request) -> int:
        token = self.driver.ask(request)
        self.asked.append(token)
        self.witness.note(token, request)
        self.learn()
        return token

    def learn(self) -> None:
        """Members remember the answers to their joins."""
        for token in [token for token in self.joins if token in self.driver.answers]:
            who, answer = self.joins.pop(token), self.driver.answer(token)
            if answer.error_code in (0, 79):
                self.ids[who] = answer.member_id
                self.generations[who] = answer.generation_id

    @rule(group=GROUPS, member=MEMBERS, protocols=PROTOCOLS, forget=st.booleans(), version=st.sampled_from([3, 8, 9]))
    def join(
        self, group: str, member: int, protocols: tuple[tuple[str, bytes], ...], forget: bool, version: int
    ) -> None:
        request = JoinGroupRequest(
            group_id=group,
            member_id="" if forget else self.ids.get((group, member), ""),
            protocol_type="consumer",
            protocols=protocols,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=3_000 * (member + 1),
            group_instance_id=INSTANCES.get(member),
            client_id=f"c{member}",
            api_version=version,
        )
        self.joins[self.ask(request)] = (group, member)
        self.learn()

    @rule(group=GROUPS, member=MEMBERS)
    def sync(self, group: str, member: int) -> None:
        ids = [self.ids.get((group, n), "") for n in range(5)]
        shares = tuple((member_id, f"{member_id}/{len(self.asked)}".encode()) for member_id in ids)
        generation = self.generations.get((group, member), -1)
        self.ask(
            SyncGroupRequest(group, generation, ids[member], INSTANCES.get(member), None, None, shares, api_version=4)
        )

    @rule(group=GROUPS, member=st.sampled_from(sorted(INSTANCES)), protocols=PROTOCOLS, settled=st.booleans())
    def restart(self, group: str, member: int, protocols: tuple[tuple[str, bytes], ...], settled: bool) -> None:
        """A static member begins anew; if `settled`, in a group that has just become Stable."""
        if settled:
            self.rebalance(group, {0, 3, 4}, protocols, release=True)
        self.join(group, member, protocols, forget=True, version=9)

    @rule(group=GROUPS, members=st.sets(MEMBERS, min_size=1), protocols=PROTOCOLS, release=st.booleans())
    def rebalance(self, group: str, members: set[int], protocols: tuple[tuple[str, bytes], ...], release: bool) -> None:
        """Members join and sync as they should; without this rule hardly any history has a Stable group."""
        for member in [*sorted(members), *sorted(members)]:
            if (group, member) not in self.joins.values():
                self.join(group, member, protocols, forget=False, version=9)
        self.wait(500, at_once=False)
        for member in sorted(members, reverse=True):
            self.sync(group, member)
        if release:
            self.append_and_commit_all()

    @rule(group=GROUPS, member=MEMBERS)
    def heartbeat(self, group: str, member: int) -> None:
        who = (group, member)
        self.ask(HeartbeatRequest(group, self.generations.get(who, -1), self.ids.get(who, ""), INSTANCES.get(member)))

    @rule(
        group=GROUPS,
        member=MEMBERS,
        topic=st.sampled_from("tu"),
        free=st.booleans(),
        retention=st.sampled_from([-1, 9]),
    )
    def commit_offsets(self, group: str, member: int, topic: str, free: bool, retention: int) -> None:
        self.offsets += 1
        who = (group, member)
        generation, member_id = (-1, "") if free else (self.generations.get(who, -1), self.ids.get(who, ""))
        instance = None if free else INSTANCES.get(member)
        offsets = [(topic, 0, self.offsets, -1, ""), (topic, 1, self.offsets, -1, "m")]
        self.ask(commit_request(group, generation, member_id, instance, offsets, 4, retention))

    @rule(group=GROUPS, stable=st.booleans())
    def fetch(self, group: str, stable: bool) -> None:
        self.ask(OffsetFetchRequest(group, None, stable))

    @rule(group=GROUPS, members=st.lists(MEMBERS, min_size=1, max_size=3))
    def leave(self, group: str, members: list[int]) -> None:
        entries = tuple(LeavingMember(self.ids.get((group, n), ""), INSTANCES.get(n)) for n in members)
        self.ask(LeaveGroupRequest(group, entries))

    @rule(group=GROUPS)
    def delete(self, group: str) -> None:
        self.ask(DeleteGroupsRequest((group,)))

    @rule(group=GROUPS, topic=st.sampled_from("tu"))
    def delete_offsets(self, group: str, topic: str) -> None:
        self.ask(OffsetDeleteRequest(group, ((topic, 0), (topic, 1))))

    @rule(topic=st.sampled_from("tu"))
    def delete_topic(self, topic: str) -> None:
        self.ask(DeleteTopicOffsetsRequest(frozenset({topic})))

    @rule(data=st.data())
    def drop(self, data: st.DataObject) -> None:
        open_tokens = [token for token in self.asked if token not in self.driver.answers and token not in self.dropped]
        if open_tokens:
            token = data.draw(st.sampled_from(open_tokens))
            self.driver.shard.drop(lambda each: each == token)
            self.dropped.add(token)
            self.joins.pop(token, None)

    # -- the log

    @rule()
    def append(self) -> None:
        if self.driver.held:
            self.driver.append()

    @rule()
    def append_and_commit_all(self) -> None:
        self.driver.release()
        self.driver.turn()
        self.learn()

    @rule(batches=st.integers(1, 3))
    def commit(self, batches: int) -> None:
        ends = [end for end in self.driver.batch_ends if end > self.driver.high_watermark]
        if ends:
            self.driver.commit(ends[:batches][-1])
            self.driver.turn()
            self.learn()

    @rule(error=st.sampled_from([6, 10, 19]))
    def refuse(self, error: int) -> None:
        if self.driver.held:
            self.driver.refuse(error)
            self.driver.turn()
            self.learn()

    # -- time and failure

    @rule(ms=WAITS, at_once=st.booleans())
    def wait(self, ms: int, at_once: bool) -> None:
        (self.driver.jump if at_once else self.driver.advance)(ms)
        self.learn()

    @rule(landed=st.integers(0, 3), lost=st.integers(0, 3))
    def lose_track(self, landed: int, lost: int) -> None:
        """Outcomes are unknown: some appends made it. Or the leader dies, and an uncommitted tail with it."""
        driver = self.driver
        driver.shard.forget()
        driver.collect(driver.shard)
        for append in driver.held[:landed]:
            driver.write(append)
        driver.held.clear()
        ends = [end for end in driver.batch_ends if end >= driver.high_watermark]
        driver.truncate(ends[max(len(ends) - 1 - lost, 0)])
        self.epoch += 1
        driver.shard.start_loading(self.epoch, driver.now)
        driver.shard.load(driver.log)
        driver.shard.finish_loading(driver.now, len(driver.log), driver.high_watermark)
        driver.turn()
        self.learn()

    # -- invariants

    @invariant()
    def consistent(self) -> None:
        assert_consistent(self.driver)
        self.witness.assert_kept()

    def teardown(self) -> None:
        """Heal, and let everything that waits come to its end."""
        driver = self.driver
        driver.holds = False
        driver.release()
        for _ in range(40):
            driver.advance(10_000)
            driver.release()
        assert_consistent(driver)
        self.witness.assert_kept()
        open_tokens = {token for token in self.asked if token not in driver.answers}
        assert open_tokens <= self.dropped, "answers are owed"
        assert not (self.dropped & set(driver.answers)), "a client that had gone was answered"
        assert driver.shard.coordinator.runtime.unanswered == {}


class TwoTypesMachine(ShardMachine):
    """Groups of a second type stand beside the classic ones, or in their places."""

    types = TYPES

    @rule(group=TINY_GROUPS, member=MEMBERS)
    def enter(self, group: str, member: int) -> None:
        self.ask(Enter(group, f"m{member}"))

    @rule(group=TINY_GROUPS, member=MEMBERS)
    def beat(self, group: str, member: int) -> None:
        self.ask(Beat(group, f"m{member}"))

    @rule(group=TINY_GROUPS, member=MEMBERS)
    def go(self, group: str, member: int) -> None:
        self.ask(Leave(group, f"m{member}"))

    @rule(group=TINY_GROUPS, member=MEMBERS)
    def commit_tiny(self, group: str, member: int) -> None:
        self.offsets += 1
        self.ask(commit_request(group, 0, f"m{member}", None, [("t", 0, self.offsets, -1, "")], 4))

    @rule(group=TINY_GROUPS)
    def delete_tiny(self, group: str) -> None:
        self.ask(DeleteGroupsRequest((group,)))

    @invariant()
    def tiny_groups_are_what_their_records_say(self) -> None:
        driver = self.driver
        if not driver.is_active():
            return
        for group in driver.shard.coordinator.runtime.groups.values():
            if isinstance(group, TinyGroup) and not group.entering and not group.is_dead:
                durable = driver.durable.get(group.group_id)
                state = durable.persisted if durable is not None else None
                assert set(group.members) == (state.member_ids if isinstance(state, TinyState) else set())

    def teardown(self) -> None:
        super().teardown()
        groups = self.driver.shard.coordinator.runtime.groups.values()
        assert not any(group.entering for group in groups if isinstance(group, TinyGroup)), "somebody enters for ever"


def histories(machine: type[RuleBasedStateMachine], examples: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,  # the simulator beside this explores; here a red run stays red
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture(autouse=True)
def _a_sweep_of_many_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Things happen between the turns of a sweep."""
    monkeypatch.setattr("actors.coordinator.groups.sweep.OFFSETS_A_TURN", 1)


def test_random_histories() -> None:
    histories(ShardMachine, 250)


def test_random_histories_of_two_types_of_groups() -> None:
    histories(TwoTypesMachine, 150)
