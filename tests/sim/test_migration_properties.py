"""Random histories of groups with members of both protocols, which go from one to the other and back."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from actors.coordinator.classic.group import ClassicGroup
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.values import JOIN_EPOCH, LEAVE_EPOCH
from actors.coordinator.turn import Request
from tests.sim.test_consumer_properties import CONSUMER_GROUPS, ConsumerMachine
from tests.sim.test_coordinator_properties import INSTANCES, MEMBERS, histories
from tests.support.pupils import Pupil

POLICIES = st.sampled_from(["bidirectional", "bidirectional", "upgrade", "downgrade", "disabled"])


class MigrationMachine(ConsumerMachine):
    """The classic members of group `k` are cooperative, those of `h` eager. They believe the answers that they get."""

    def __init__(self) -> None:
        super().__init__()
        self.pupils: dict[tuple[str, int], Pupil] = {}
        self.lessons: dict[int, tuple[Pupil, Request]] = {}

    def pupil(self, group: str, member: int) -> Pupil:
        who = group, member
        if who not in self.pupils:
            self.pupils[who] = Pupil(group, f"p{member}", INSTANCES.get(member), cooperates=group == "k")
        return self.pupils[who]

    def send(self, pupil: Pupil, request: Request) -> None:
        self.lessons[self.ask(request)] = pupil, request
        self.learn()

    def learn(self) -> None:
        super().learn()
        for token in [token for token in self.lessons if token in self.driver.answers or token in self.dropped]:
            pupil, request = self.lessons.pop(token)
            if self.pupils.get((pupil.group_id, int(pupil.name[1:]))) is pupil:
                pupil.learn(request, self.driver.answer(token))

    def is_asking(self, pupil: Pupil) -> bool:
        return any(each is pupil for each, _ in self.lessons.values())

    @rule(group=CONSUMER_GROUPS, members=st.lists(MEMBERS, min_size=1, max_size=4), times=st.integers(1, 4))
    def study(self, group: str, members: list[int], times: int) -> None:
        """Classic members take their next steps."""
        for _ in range(times):
            for member in members:
                pupil = self.pupil(group, member)
                if not self.is_asking(pupil):
                    self.send(pupil, pupil.step(self.topics))

    @rule(group=CONSUMER_GROUPS, members=st.sets(MEMBERS, min_size=1, max_size=3), rounds=st.integers(2, 6))
    def study_well(self, group: str, members: set[int], rounds: int) -> None:
        """Classic members take their steps in good order, so that groups become stable."""
        for _ in range(rounds):
            self.study(group, sorted(members), 1)
            self.append_and_commit_all()
            self.wait(600, at_once=False)
            self.append_and_commit_all()

    @rule(group=CONSUMER_GROUPS, classic=st.sets(MEMBERS, min_size=1, max_size=2), new=st.sets(MEMBERS, max_size=2))
    def work_together(self, group: str, classic: set[int], new: set[int]) -> None:
        """Members of both protocols in one group, until it is stable or nearly."""
        for _ in range(4):
            self.study(group, sorted(classic), 1)
            self.behave(group, new, 1)

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, goes=st.booleans())
    def roll(self, group: str, member: int, goes: bool) -> None:
        """A member is exchanged for one of the other protocol, one way or the other."""
        if goes:
            self.heartbeat_of((group, member), LEAVE_EPOCH)
            self.append_and_commit_all()
            self.study_well(group, {member}, 2)
        else:
            self.depart(group, member)
            self.append_and_commit_all()
            self.behave(group, {member, (member + 1) % 5}, 1)

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, rounds=st.integers(1, 3), fails_over=st.booleans())
    def come_and_go(self, group: str, member: int, rounds: int, fails_over: bool) -> None:
        """An instance of the new protocol ends and comes again, before classic members at work have heard of it."""
        self.set_policy("bidirectional")
        for each in range(5):
            self.heartbeat_of((group, each), LEAVE_EPOCH)
            self._let_all_commit()
        self.study_well(group, {0, 1}, 6)
        for _ in range(rounds):
            self.begin_anew(group, member)
            self.heartbeat_of((group, member), JOIN_EPOCH, ("t", "u"))
            self._let_all_commit()
            if fails_over:
                self.lose_track(5, 0)
            self.beat(group, [member], is_slow=False)
            self._let_all_commit()
            self.heartbeat_of((group, member), LEAVE_EPOCH)
            self._let_all_commit()

    def _let_all_commit(self) -> None:
        """Let all appends commit within 10 ms, those of work in several turns, too."""
        self.append_and_commit_all()
        self.wait(10, at_once=False)
        self.append_and_commit_all()

    @rule(group=CONSUMER_GROUPS, member=MEMBERS)
    def depart(self, group: str, member: int) -> None:
        pupil = self.pupil(group, member)
        if pupil.member_id and not self.is_asking(pupil):
            self.send(pupil, pupil.leave())

    @rule(group=CONSUMER_GROUPS, member=MEMBERS)
    def restart_pupil(self, group: str, member: int) -> None:
        """A process ends without a word, and the next one begins."""
        self.pupils.pop((group, member), None)

    @rule(policy=POLICIES)
    def set_policy(self, policy: str) -> None:
        """Brokers were restarted with another policy."""
        if self.driver.is_active():
            settings = self.driver.settings.__class__
            fields = {name: getattr(self.driver.settings, name) for name in settings.__slots__}
            self.driver.set_settings(settings(**{**fields, "migration_policy": policy}))

    # -- invariants

    @invariant()
    def no_partition_has_two_users_of_whichever_protocol(self) -> None:
        """Checked for members that know that they are."""
        if not self.driver.is_active():
            return
        for group in self.driver.shard.coordinator.runtime.groups.values():
            known = _member_ids(group.shown)
            used: dict[tuple[bytes, int], str] = {}
            for who, has in self.users(group.group_id):
                for topic_id, partition in has if who in known else ():
                    other = used.setdefault((topic_id, partition), who)
                    assert other == who, f"{other} and {who} use {partition} of {group.group_id}, a {group.type_name}"

    def users(self, group_id: str) -> Iterator[tuple[str, set[tuple[bytes, int]]]]:
        """The partitions that each member uses, by member id."""
        for (group, _), believed in self.believed.items():
            if group == group_id:
                yield (
                    believed.member_id,
                    {(topic_id, each) for topic_id, numbers in believed.owned.items() for each in numbers},
                )
        for (group, _), pupil in self.pupils.items():
            if group == group_id:
                yield pupil.member_id, pupil.uses()

    def _all_goes_well_together(self, group_id: str, classic: Collection[int], new: set[int]) -> None:
        """Members of both protocols that are heard come to a stable group, in which all partitions have an owner."""
        for _ in range(25):
            self.study(group_id, sorted(classic), 2)
            self.behave(group_id, new, 1)
        group = self.driver.shard.coordinator.runtime.groups[group_id]
        if isinstance(group, ConsumerGroup):
            assert group.state.persisted_state == "Stable", group.state.persisted_state
            held = sum(topic.partitions for topic in self.topics if topic.name in group.state.subscribed_topics())
            assert len(group.state.owners) == held

    def teardown(self) -> None:
        self.driver.holds = self.is_silent = False
        self.append_and_commit_all()
        self.set_policy("bidirectional")
        for group_id in ("h", "k"):
            self._all_goes_well_together(group_id, {0, 1}, {2})
        self.lessons.clear()
        super().teardown()


def _member_ids(group: object) -> Collection[str]:
    if isinstance(group, ConsumerGroup):
        return group.state.metadata.keys()
    return group.members.keys() if isinstance(group, ClassicGroup) else ()


def test_random_histories_of_both_protocols() -> None:
    histories(MigrationMachine, 60)
