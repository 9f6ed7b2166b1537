"""Random histories of a shard that has consumer groups beside classic ones, or in their places."""

from __future__ import annotations

import re
from collections.abc import Collection, Generator, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from actors.coordinator.assignors.assignor import GroupSpec, Target
from actors.coordinator.assignors.ranges import RangeAssignor
from actors.coordinator.assignors.uniform import UniformAssignor
from actors.coordinator.consumer.commits import check_commit
from actors.coordinator.consumer.group import ConsumerGroup
from actors.coordinator.consumer.messages import ConsumerGroupHeartbeatRequest, NoteTopicsRequest, ResolutionsRequest
from actors.coordinator.consumer.regexes import resolve
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.topics import Topic, Topics, existing, group_hash
from actors.coordinator.consumer.values import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    MemberMetadata,
    Partitions,
    partitions_of,
)
from actors.coordinator.group_types import GROUP_RECORDS
from actors.coordinator.groups.messages import DeleteGroupsRequest, OffsetCommitRequest, OffsetFetchRequest
from actors.coordinator.groups.offset_records import decode_offset_value, offset_key
from tests.sim.test_coordinator_properties import CONFIG, INSTANCES, MEMBERS, ShardMachine, histories
from tests.support.consumer_groups import ConsumerDriver
from tests.support.coordination_invariants import Witness
from tests.support.offset_rows import commit_request, commit_rows, naive_replay

SETTINGS = ConsumerSettings(
    session_timeout_ms=6_000, max_size=4, assignment_interval_ms=1_000, regex_refresh_interval_ms=20_000
)
CONSUMER_GROUPS = st.sampled_from(["h", "k"])
NAMES = st.sampled_from([("t",), ("t", "u"), ("u",), (), ("t", "v")])
COUNTS = {"t": st.integers(1, 8), "u": st.integers(0, 2), "v": st.integers(0, 1)}
Who = tuple[str, int]


class Sometimes(UniformAssignor):
    """`uniform`, which takes up to two slices more, by the number of members."""

    def steps(self, group: GroupSpec) -> Generator[None, None, Target]:
        for _ in range(len(group.members) % 3):
            yield
        return (yield from super().steps(group))


class Believed:
    """A member's knowledge of itself in a consumer group."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.epoch = JOIN_EPOCH
        self.owned: Partitions = {}
        """The partitions that it uses."""
        self.told: Partitions = {}
        """The partitions that it may use. By its next heartbeat, or a later one, it uses these and no others."""
        self.said: Partitions | None = None
        """The owned partitions in its last heartbeat, if that was taken. It sends them again when they have changed."""


class ConsumerMachine(ShardMachine):
    """Members report the partitions that they own, and use only those that they were given."""

    def __init__(self) -> None:
        super().__init__()
        self.topics = (Topic(b"t" * 16, "t", 6), Topic(b"u" * 16, "u", 1))
        self.version = self.told_version = 7
        assignors = (Sometimes(), RangeAssignor())
        self.driver = ConsumerDriver(*self.topics, config=CONFIG, settings=SETTINGS, assignors=assignors)
        self.driver.holds = True
        self.witness = Witness(self.driver)
        self.believed: dict[Who, Believed] = {}
        self.incarnations = 0
        self.beats: dict[int, tuple[Who, Believed]] = {}
        self.resolving: int | None = None
        self.is_silent = False
        """True until the host has told the shard of the topics."""
        self.commits: dict[int, OffsetCommitRequest] = {}

    # -- members

    def heartbeat_of(
        self,
        who: Who,
        epoch: int,
        names: Sequence[str] | None = None,
        regex: str | None = None,
        *,
        is_slow: bool = False,
    ) -> None:
        """Send a heartbeat, unless one is under way: members send one at a time."""
        believed = self.believed.setdefault(who, Believed(f"m{who[1]}"))
        if any(each is believed for _, each in self.beats.values()):
            return
        if epoch == JOIN_EPOCH:
            believed.owned, believed.told, believed.said = {}, {}, None
        if not is_slow:
            believed.owned = believed.told
        says = epoch >= JOIN_EPOCH and believed.owned != believed.said
        believed.said = believed.owned if says else believed.said
        token = self.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=who[0],
                member_id=believed.member_id,
                member_epoch=epoch,
                instance_id=INSTANCES.get(who[1]) if epoch <= JOIN_EPOCH else None,
                rebalance_timeout_ms=3_000 * (who[1] + 1) if epoch == JOIN_EPOCH else -1,
                subscribed_topic_names=None if names is None else tuple(names),
                subscribed_topic_regex=regex,
                topic_partitions=believed.owned if says else None,
            )
        )
        self.beats[token] = who, believed
        if self.is_silent and token in self.driver.answers:
            assert self.driver.answers[token].error_code, "topics are not known"  # type: ignore[attr-defined]
        self.learn()

    def learn(self) -> None:
        """Members remember their answers, and use no other partitions than those."""
        super().learn()
        self.tell_topics()
        for token in [token for token in self.beats if token in self.driver.answers or token in self.dropped]:
            _, believed = self.beats.pop(token)
            answer = self.driver.answer(token)
            if answer is None or answer.error_code:
                believed.said = None
            if answer is None:
                continue
            if answer.error_code in (25, 69, 82, 110) or answer.member_epoch < 0:
                believed.epoch, believed.owned, believed.told = JOIN_EPOCH, {}, {}
            elif answer.error_code == 0:
                believed.epoch = answer.member_epoch
                if answer.assignment is not None:
                    believed.told = answer.assignment

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, names=NAMES, regex=st.sampled_from(["", "", "[tu]", ".*"]))
    def enter(self, group: str, member: int, names: tuple[str, ...], regex: str) -> None:
        self.heartbeat_of((group, member), JOIN_EPOCH, names, regex)

    @rule(group=CONSUMER_GROUPS, members=st.lists(MEMBERS, min_size=1, max_size=5), is_slow=st.booleans())
    def beat(self, group: str, members: list[int], is_slow: bool) -> None:
        for member in members:
            believed = self.believed.get((group, member))
            if believed is not None and believed.epoch > 0:
                self.heartbeat_of((group, member), believed.epoch, is_slow=is_slow)

    @rule(
        group=CONSUMER_GROUPS,
        members=st.sets(MEMBERS, min_size=2),
        rounds=st.integers(1, 4),
        slow=st.sets(MEMBERS, max_size=1),
    )
    def behave(self, group: str, members: set[int], rounds: int, slow: Collection[int] = ()) -> None:
        """Members join and go on; without it hardly any group becomes Stable."""
        for _ in range(rounds):
            for member in sorted(members):
                believed = self.believed.get((group, member))
                if believed is None or believed.epoch == JOIN_EPOCH:
                    self.heartbeat_of((group, member), JOIN_EPOCH, ("t", "u"))
                else:
                    self.heartbeat_of((group, member), believed.epoch, is_slow=member in slow)
            self.append_and_commit_all()
            self.wait(1_100, at_once=False)
            self.append_and_commit_all()

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, names=NAMES)
    def subscribe(self, group: str, member: int, names: tuple[str, ...]) -> None:
        believed = self.believed.get((group, member))
        if believed is not None and believed.epoch > 0:
            self.heartbeat_of((group, member), believed.epoch, names)

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, a_while=st.booleans())
    def go(self, group: str, member: int, a_while: bool) -> None:
        if (group, member) in self.believed:
            away = a_while and member in INSTANCES
            self.heartbeat_of((group, member), STATIC_LEAVE_EPOCH if away else LEAVE_EPOCH)

    @rule(group=CONSUMER_GROUPS, slow=MEMBERS, comes=MEMBERS, rounds=st.integers(2, 4))
    def grow(self, group: str, slow: int, comes: int, rounds: int) -> None:
        """Another member comes to a group at work, and an old one is slow to give its partitions back."""
        self.behave(group, {slow, 0, 1} - {comes}, 4)
        self.behave(group, {slow, 0, 1, comes}, rounds, {slow})

    @rule(group=CONSUMER_GROUPS, away=st.sampled_from(sorted(INSTANCES)), rounds=st.integers(1, 2))
    def pause(self, group: str, away: int, rounds: int) -> None:
        """A static member of a group at work is away for a while, and others come."""
        self.behave(group, {0, away}, 2)
        self.go(group, away, a_while=True)
        self.append_and_commit_all()
        self.behave(group, {0, 1, 2}, rounds)
        if rounds == 1:
            self.begin_anew(group, away)
            self.enter(group, away, ("t", "u"), "")

    @rule(group=CONSUMER_GROUPS, member=MEMBERS)
    def begin_anew(self, group: str, member: int) -> None:
        """A process ends without a word, and the next one has an id of its own."""
        self.incarnations += 1
        self.believed[group, member] = Believed(f"m{member}-{self.incarnations}")

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, behind=st.integers(-1, 2), partition=st.integers(0, 2))
    def commit_of_member(self, group: str, member: int, behind: int, partition: int) -> None:
        self.offsets += 1
        believed = self.believed.get((group, member), Believed("nobody"))
        rows = [("t", partition, self.offsets, -1, "")]
        request = commit_request(group, believed.epoch - behind, believed.member_id, None, rows, 9)
        self.commits[self.ask(request)] = request

    @rule(group=CONSUMER_GROUPS, partition=st.integers(0, 2))
    def commit_of_nobody(self, group: str, partition: int) -> None:
        self.offsets += 1
        request = commit_request(group, -1, "", None, [("t", partition, self.offsets, -1, "")], 9)
        self.commits[self.ask(request)] = request

    @rule(group=CONSUMER_GROUPS, member=MEMBERS)
    def fetch_of_member(self, group: str, member: int) -> None:
        believed = self.believed.get((group, member), Believed("nobody"))
        self.ask(OffsetFetchRequest(group, None, True, believed.member_id, believed.epoch))

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, goes=st.booleans(), is_nobody=st.booleans())
    def commit_meanwhile(self, group: str, member: int, goes: bool, is_nobody: bool) -> None:
        """Somebody commits while a member, perhaps the only one, comes or goes."""
        if goes:
            self.go(group, member, a_while=False)
        else:
            self.enter(group, member, ("t",), "")
        self.wait(2, at_once=False)
        if is_nobody:
            self.commit_of_nobody(group, 0)
        else:
            self.commit_of_member(group, member, 0, 0)

    @rule(group=CONSUMER_GROUPS, member=MEMBERS, count=st.integers(1, 8))
    def change_meanwhile(self, group: str, member: int, count: int) -> None:
        """A topic changes while a target is computed."""
        self.behave(group, {0, 1}, 2)
        self.subscribe(group, member, ("t",))
        self.change_topics({"t": count, "u": 1, "v": 0}, anew=False)
        self.wait(5, at_once=False)
        self.behave(group, {0, 1}, 4)
        found = self.driver.shard.coordinator.runtime.groups.get(group)
        if isinstance(found, ConsumerGroup) and found.state_name == "Stable" and not self.is_silent:
            subscribed = existing(found.state.subscribed_topics(), Topics(self.topics))
            assert found.state.metadata_hash == group_hash(subscribed), "nobody has looked at its topics"

    @rule(group=CONSUMER_GROUPS)
    def delete_consumers(self, group: str) -> None:
        self.ask(DeleteGroupsRequest((group,)))

    # -- the cluster

    @rule(counts=st.fixed_dictionaries(COUNTS), anew=st.booleans())
    def change_topics(self, counts: dict[str, int], anew: bool) -> None:
        ids = {name: name.encode() * 16 for name in counts}
        if anew:
            self.incarnations += 1
            ids["u"] = self.incarnations.to_bytes(16, "big")
        self.topics = tuple(Topic(ids[name], name, count) for name, count in counts.items() if count)
        self.version += 1
        self.tell_topics()

    def tell_topics(self) -> None:
        """A host tells a shard of topics when the shard begins to serve, and when they have changed."""
        if self.driver.is_active() and self.told_version != self.version and not self.is_silent:
            self.told_version = self.version
            self.driver.call(NoteTopicsRequest(Topics(self.topics, self.version)))

    @precondition(lambda self: self.resolving is None)
    @rule()
    def ask_for_resolutions(self) -> None:
        self.resolving = self.driver.ask(ResolutionsRequest())

    @precondition(lambda self: self.resolving in self.driver.answers)
    @rule()
    def resolve(self) -> None:
        answer = self.driver.answers[self.resolving]  # type: ignore[index]
        for each in answer.resolutions:  # type: ignore[attr-defined]
            self.ask(resolve(each, lambda _: True))
        self.resolving = None

    @rule(landed=st.integers(0, 3), lost=st.integers(0, 3), is_silent=st.booleans())
    def lose_track(self, landed: int, lost: int, is_silent: bool = False) -> None:
        self.told_version, self.is_silent = 0, is_silent
        super().lose_track(landed, lost)

    @precondition(lambda self: self.is_silent)
    @rule()
    def begin_to_tell(self) -> None:
        self.is_silent = False
        self.tell_topics()

    # -- invariants

    @invariant()
    def nobody_uses_what_another_may_use(self) -> None:
        """Checked for members that know that they are."""
        if not self.driver.is_active():
            return
        for group in self.driver.shard.coordinator.runtime.groups.values():
            if not isinstance(group, ConsumerGroup):
                continue
            used: dict[tuple[bytes, int], str] = {}
            for (group_id, _), believed in self.believed.items():
                if group_id != group.group_id or believed.member_id not in group.state.metadata:
                    continue
                for topic_id, partitions in believed.owned.items():
                    for partition in partitions:
                        other = used.setdefault((topic_id, partition), believed.member_id)
                        assert other == believed.member_id, f"{other} and {believed.member_id} use {partition}"

    @invariant()
    def members_of_a_stable_group_have_what_their_targets_say(self) -> None:
        """Checked for topics that they subscribe to, and that exist."""
        if not self.driver.is_active():
            return
        ids = {topic.name: topic.topic_id for topic in self.topics}
        for group in self.driver.shard.coordinator.runtime.groups.values():
            if not isinstance(group, ConsumerGroup) or group.state_name != "Stable":
                continue
            state = group.state
            for member_id, member in state.metadata.items():
                assigned = partitions_of(state.current_of(member_id).assigned)
                target = state.targets.get(member_id, {})
                for topic_id in {ids[name] for name in state.topics_of(member) if name in ids}:
                    assert assigned.get(topic_id) == target.get(topic_id)

    @invariant()
    def a_commit_stands_where_its_group_allows_it(self) -> None:
        """Checked against the log before the commit."""
        driver = self.driver
        for token in [token for token in self.commits if token in driver.answers]:
            request = self.commits.pop(token)
            if any(driver.answers[token].error_codes):  # type: ignore[attr-defined]
                continue
            ((topic, partition, offset, *_),) = commit_rows(request)
            key = offset_key(request.group_id or "", topic, partition)
            at = next(
                at
                for at, (other, value) in enumerate(driver.log)
                if other == key and value is not None and decode_offset_value(value).offset == offset
            )
            group = naive_replay(driver.log[:at], GROUP_RECORDS).get(request.group_id or "")
            if group is not None and isinstance(group.persisted, ConsumerState):
                assert check_commit(group.persisted, request, Topics(self.topics)) == 0

    def _all_goes_well(self, group_id: str) -> None:
        """With members that are heard, and a log that takes records, the group comes to own all partitions."""
        for _ in range(40):
            self.behave(group_id, {0, 1, 2, 3, 4}, 1)
            if self.resolving is None:
                self.ask_for_resolutions()
            if self.resolving in self.driver.answers:
                self.resolve()
        group = self.driver.shard.coordinator.runtime.groups.get(group_id)
        assert isinstance(group, ConsumerGroup), "members of another protocol have gone by now"
        state = group.state
        assert state.persisted_state == "Stable"
        assert 1 <= len(state.metadata) <= SETTINGS.max_size
        wanted = {
            (topic.topic_id, partition)
            for topic in self.topics
            if any(_subscribes(member, topic.name) for member in state.metadata.values())
            for partition in range(topic.partitions)
        }
        assert set(state.owners) == wanted, f"{set(state.owners) ^ wanted} are too many or too few"

    @rule()
    def append(self) -> None:
        super().append()
        self.learn()

    def teardown(self) -> None:
        self.driver.holds = self.is_silent = False
        self.append_and_commit_all()
        if self.driver.answers.get(self.resolving or -1) is not None:
            self.resolve()
        for group_id in ("h", "k"):
            self._all_goes_well(group_id)
        if self.resolving is not None:
            self.driver.shard.drop(lambda token: token == self.resolving)
        super().teardown()


def _subscribes(member: MemberMetadata, topic: str) -> bool:
    return topic in member.names or (member.regex != "" and re.fullmatch(member.regex, topic) is not None)


def test_random_histories_with_consumer_groups() -> None:
    histories(ConsumerMachine, 60)
