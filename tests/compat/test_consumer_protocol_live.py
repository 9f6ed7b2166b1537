"""Our own Consumer as a member of a consumer group (KIP-848), against real brokers."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from actors.client import (
    Admin,
    Consumer,
    ConsumerRebalanceListener,
    GroupMembershipOperation,
    OffsetAndMetadata,
    SubscriptionPattern,
    TopicPartition,
)
from actors.client.admin.types import ConfigResource
from actors.client.errors import (
    CommitFailedError,
    InvalidRegularExpressionError,
    UnreleasedInstanceIdError,
    UnsupportedAssignorError,
)
from actors.wire.config_resources import ConfigResourceType
from actors.wire.errors import ErrorCode
from actors.wire.messages import ConsumerGroupHeartbeatRequest, OffsetCommitRequest
from tests.compat.own_clients import (
    COUNT,
    Worker,
    consumer,
    divided,
    make_topic,
    narrator,
    numbered,
    produce,
    read,
    workers,
)
from tests.compat.peers import Peer
from tests.compat.raw import Raw, serving_coordinator
from tests.compat.support import ONE_PROCESS, against, wait_until

pytestmark = ONE_PROCESS

everywhere = against("kafka")


@pytest.fixture
def group(kafka: Peer, name: str) -> str:
    """A group whose members beat often, and whose sessions are short."""
    quick = {"consumer.heartbeat.interval.ms": "300", "consumer.session.timeout.ms": "6000"}
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.incremental_alter_configs({ConfigResource(ConfigResourceType.GROUP, name): quick})
    return name


class Recorder(ConsumerRebalanceListener):
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, set[TopicPartition]]] = []

    @property
    def moves(self) -> list[tuple[str, set[TopicPartition]]]:
        """The calls with partitions. A first assignment is empty while the coordinator does not know the topic yet."""
        return [(call, partitions) for call, partitions in self.calls if partitions]

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.calls.append(("revoked", set(revoked)))

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.calls.append(("assigned", set(assigned)))

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.calls.append(("lost", set(lost)))


def member(kafka: Peer, group: str, **settings: Any) -> Consumer:
    return consumer(kafka, group_id=group, group_protocol="consumer", **settings)


def owns(reader: Consumer, wanted: Iterable[TopicPartition]) -> None:
    """Poll until the group knows that the reader has these partitions and no others."""
    partitions = set(wanted)

    def there() -> bool:
        reader.poll(50)
        return reader.assignment() == partitions and reader.metrics()["state"] == "STABLE"

    wait_until(there, what=f"{len(partitions)} partitions")


@everywhere
def test_a_group_grows_and_shrinks_and_each_record_is_read_once(kafka: Peer, group: str) -> None:
    partitions = make_topic(kafka, group)
    settings = {"group_protocol": "consumer", "auto_commit_interval_ms": 200}
    with workers(kafka, group, group, 2, **settings) as running:
        wait_until(divided(running, partitions), what="two members with everything between them")
        produce(kafka, group, numbered(600))
        wait_until(lambda: len({v for w in running for v in w.values}) == 600, what="all records")
        running.append(Worker(kafka, group, group, **settings))
        even = lambda: all(len(worker.owned) == COUNT // 3 for worker in running)  # noqa: E731
        wait_until(lambda: divided(running, partitions)() and even(), what="three members")
        leaver = running.pop(0)
        leaver.end()
        wait_until(divided(running, partitions), what="two members again")
        produce(kafka, group, numbered(100, 600))
        wait_until(lambda: len({v for w in running for v in w.values if v >= b"value-000600"}) == 100, what="the rest")
        assert [error for worker in running for error in worker.errors] == []
        assert sorted(v for w in (leaver, *running) for v in w.values) == numbered(700)


@everywhere
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_the_brokers_assignor_that_is_voted_for_is_taken(kafka: Peer, group: str, assignor: str) -> None:
    """Of two topics with three partitions each, `range` gives the first member four."""
    topics = [f"{group}-{n}" for n in range(2)]
    for topic in topics:
        make_topic(kafka, topic, 3)
    settings = {"group_remote_assignor": assignor}
    with member(kafka, group, **settings) as one, member(kafka, group, **settings) as two:
        one.subscribe(topics)
        two.subscribe(topics)
        sizes = {"uniform": {3}, "range": {2, 4}}[assignor]

        def divided_so() -> bool:
            one.poll(50), two.poll(50)
            mine, yours = one.assignment(), two.assignment()
            return len(mine | yours) == 6 and not mine & yours and {len(mine), len(yours)} == sizes

        wait_until(divided_so, what=str(sizes))


@everywhere
def test_an_assignor_that_the_broker_does_not_have_is_said_by_each_poll(kafka: Peer, group: str) -> None:
    make_topic(kafka, group, 1)
    with member(kafka, group, group_remote_assignor="none-such") as reader:
        reader.subscribe([group])

        def refused() -> bool:
            try:
                reader.poll(50)
            except UnsupportedAssignorError:
                return True
            return False

        wait_until(refused, what="the refusal")
        with pytest.raises(UnsupportedAssignorError, match="UNSUPPORTED_ASSIGNOR"):
            reader.poll(50)
        assert reader.metrics()["state"] == "FATAL"


@everywhere
def test_the_listener_hears_of_what_moves_after_it_was_committed(kafka: Peer, group: str) -> None:
    partitions = make_topic(kafka, group, 4)
    produce(kafka, group, numbered(100))
    heard = Recorder()
    with member(kafka, group, auto_commit_interval_ms=600_000) as reader:
        reader.subscribe([group], listener=heard)
        read(reader, 100)
        with workers(kafka, group, group, 1, group_protocol="consumer") as (other,):
            wait_until(lambda: reader.poll(50) is None or len(other.owned) == 2, what="its half")
            assert heard.moves == [("assigned", set(partitions)), ("revoked", other.owned)]
            assert heard.calls[-1] == ("assigned", set())
            assert other.values == [], "what was read of them was committed before"
    assert heard.calls[-1][0] == "revoked", "when it closed"


@everywhere
def test_a_member_that_is_killed_is_replaced_after_its_session(kafka: Peer, group: str, tmp_path: Path) -> None:
    partitions = make_topic(kafka, group, 4)
    said = tmp_path / "said"
    with (
        narrator(kafka, group, said, group_protocol="consumer") as victim,
        workers(kafka, group, group, 1, group_protocol="consumer") as (other,),
    ):
        wait_until(lambda: len(other.owned) == 2, what="half")
        victim.kill()
        wait_until(lambda: other.owned == set(partitions), what="the rest")
        assert other.errors == []


@everywhere
def test_a_process_that_is_stopped_beyond_its_session_is_told_and_joins_again(
    kafka: Peer, group: str, tmp_path: Path
) -> None:
    partitions = make_topic(kafka, group, 4)
    said = tmp_path / "said"

    def words() -> list[list[str]]:
        return [line.split()[:2] for line in said.read_text().splitlines()]

    def held() -> int:
        """The number of partitions of the stopped member, by its own words."""
        return sum(int(n) if call == "assigned" else -int(n) for call, n in words())

    with (
        narrator(kafka, group, said, group_protocol="consumer") as stopped,
        workers(kafka, group, group, 1, group_protocol="consumer") as (other,),
    ):
        wait_until(lambda: len(other.owned) == held() == 2 and words()[-1][0] == "assigned", what="halves")
        before = words()
        stopped.send_signal(signal.SIGSTOP)
        wait_until(lambda: other.owned == set(partitions), what="its share at the other")
        stopped.send_signal(signal.SIGCONT)
        wait_until(lambda: len(other.owned) == 2, what="both again")
        assert words()[len(before)] == ["lost", "2"]
        assert other.errors == []


@everywhere
def test_a_static_member_comes_back_to_its_partitions_without_a_rebalance(kafka: Peer, group: str) -> None:
    make_topic(kafka, group, 4)
    heard = Recorder()
    with member(kafka, group) as other:
        other.subscribe([group], listener=heard)
        with member(kafka, group, group_instance_id="one") as reader:
            reader.subscribe([group])
            wait_until(lambda: other.poll(20) is None or reader.poll(20) is None or len(reader.assignment()) == 2)
            wait_until(lambda: other.poll(20) is None or reader.poll(20) is None or len(other.assignment()) == 2)
            before, who = reader.assignment(), reader.group_metadata()
        calls = len(heard.calls)
        with member(kafka, group, group_instance_id="one") as reader:
            reader.subscribe([group])
            wait_until(lambda: other.poll(20) is None or reader.poll(20) is None or reader.assignment() == before)
            assert reader.group_metadata().member_id != who.member_id
        assert len(heard.calls) == calls
        with member(kafka, group, group_instance_id="one") as reader:
            reader.subscribe([group])
            owns(reader, before)
            reader.close(group_membership_operation=GroupMembershipOperation.LEAVE_GROUP)
        wait_until(lambda: other.poll(20) is None or len(other.assignment()) == 4, what="what it has left for good")


@everywhere
def test_a_second_static_member_of_that_name_is_refused_while_the_first_is_there(kafka: Peer, group: str) -> None:
    partitions = make_topic(kafka, group, 2)
    with (
        member(kafka, group, group_instance_id="one") as first,
        member(kafka, group, group_instance_id="one") as second,
    ):
        first.subscribe([group])
        owns(first, partitions)
        second.subscribe([group])
        with pytest.raises(UnreleasedInstanceIdError, match="UNRELEASED_INSTANCE_ID"):
            wait_until(lambda: second.poll(50) is not None and second.assignment())
        owns(first, partitions)


@everywhere
@pytest.mark.conformance("K-F-37")
def test_a_static_member_whose_join_was_not_answered_is_not_kept_out_by_itself(kafka: Peer, group: str) -> None:
    """Another joins in its name, as a join whose answer is lost does: the coordinator then refuses its own."""
    partitions = make_topic(kafka, group, 2)
    with member(kafka, group, group_instance_id="one") as reader:
        reader.subscribe([group])
        owns(reader, partitions)
        me = reader.group_metadata().member_id
        reader.unsubscribe()
        unheard = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=me,
            instance_id="one",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=[group],
            topic_partitions=[],
        )
        with Raw(serving_coordinator(kafka.bootstrap_servers, group)) as raw:
            wait_until(lambda: raw.call(unheard, 1).error_code == 0, what="the leave before it")
            assert raw.call(unheard, 1).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        reader.subscribe([group])
        owns(reader, partitions)


@everywhere
def test_an_expression_is_the_brokers_and_takes_in_what_is_made_later(kafka: Peer, group: str) -> None:
    first = make_topic(kafka, f"{group}-a", 1)
    make_topic(kafka, f"not-{group}-a", 1)
    with member(kafka, group, metadata_max_age_ms=500) as reader:
        reader.subscribe(pattern=SubscriptionPattern(f"{group}-[ab]"))
        owns(reader, first)
        assert reader.subscription() == {f"{group}-a"}
        reader.subscribe(pattern=f"{group}-[bc]")
        second = make_topic(kafka, f"{group}-c", 1)
        owns(reader, second)


@everywhere
@pytest.mark.conformance("K-F-12", "K-F-44")
@pytest.mark.parametrize("again", [False, True], ids=["another consumer", "the same consumer"])
def test_a_static_member_that_comes_back_with_names_has_its_expression_no_more(
    kafka: Peer, group: str, again: bool
) -> None:
    first, second = make_topic(kafka, f"{group}-a", 1), make_topic(kafka, f"{group}-b", 1)
    with contextlib.ExitStack() as open_:
        reader = open_.enter_context(member(kafka, group, group_instance_id="one"))
        reader.subscribe(pattern=SubscriptionPattern(f"{group}-[ab]"))
        owns(reader, first + second)
        if again:
            reader.unsubscribe()
        else:
            reader.close()
            reader = open_.enter_context(member(kafka, group, group_instance_id="one"))
        reader.subscribe([f"{group}-a"])
        owns(reader, first)
        assert reader.assignment() == set(first)


@everywhere
def test_an_expression_that_is_none_is_refused(kafka: Peer, group: str) -> None:
    with member(kafka, group) as reader:
        reader.subscribe(pattern=SubscriptionPattern("(a"))
        with pytest.raises(InvalidRegularExpressionError):
            wait_until(lambda: reader.poll(50) is not None and reader.assignment())


@everywhere
def test_another_subscription_is_taken_up_without_leaving(kafka: Peer, group: str) -> None:
    one, two = make_topic(kafka, f"{group}-1", 2), make_topic(kafka, f"{group}-2", 2)
    heard = Recorder()
    with member(kafka, group) as reader:
        reader.subscribe([f"{group}-1"], listener=heard)
        owns(reader, one)
        me = reader.group_metadata().member_id
        reader.subscribe([f"{group}-2"], listener=heard)
        owns(reader, two)
        assert (reader.group_metadata().member_id, reader.metrics()["joins"]) == (me, 1)
        assert ("revoked", set(one)) in heard.calls
        reader.unsubscribe()
        assert heard.calls[-1] == ("revoked", set(two))
        reader.subscribe([f"{group}-1"], listener=heard)
        owns(reader, one)
        assert reader.group_metadata().member_id == me


@everywhere
def test_a_member_whose_place_was_taken_away_is_told_and_joins_again(kafka: Peer, group: str) -> None:
    """A foreign leave in its name: its heartbeat is unknown, its commits fail, and it joins again as itself."""
    (tp, _) = partitions = make_topic(kafka, group, 2)
    heard = Recorder()
    with member(kafka, group, enable_auto_commit=False) as reader:
        reader.subscribe([group], listener=heard)
        owns(reader, partitions)
        me = reader.group_metadata().member_id
        reader.commit({tp: OffsetAndMetadata(0)})
        address = serving_coordinator(kafka.bootstrap_servers, group)
        with Raw(address) as raw:
            leave = ConsumerGroupHeartbeatRequest(group_id=group, member_id=me, member_epoch=-1)
            assert raw.call(leave, 1).error_code == 0
        with pytest.raises(CommitFailedError):
            reader.commit({tp: OffsetAndMetadata(0)})
        wait_until(lambda: reader.poll(50) is None or ("lost", set(partitions)) in heard.calls, what="the loss")
        owns(reader, partitions)
        assert [call for call, _ in heard.moves] == ["assigned", "lost", "assigned"]
        assert (reader.group_metadata().member_id, reader.metrics()["memberships_lost"]) == (me, 1)
        reader.commit({tp: OffsetAndMetadata(0)})


@everywhere
def test_a_commit_goes_with_the_newest_epoch_and_one_of_an_older_one_is_stale(kafka: Peer, group: str) -> None:
    partitions = make_topic(kafka, group, 2)
    with member(kafka, group, enable_auto_commit=False) as reader:
        reader.subscribe([group])
        owns(reader, partitions)
        place = reader.group_metadata()
        reader.commit({tp: OffsetAndMetadata(3) for tp in partitions})
        found = reader.committed_offsets(partitions)
        assert [offset.offset for offset in found.values() if offset] == [3, 3]
        address = serving_coordinator(kafka.bootstrap_servers, group)
        with Raw(address) as raw:
            topic = OffsetCommitRequest.OffsetCommitRequestTopic(
                name=group,
                partitions=[OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=9)],
            )
            ahead = OffsetCommitRequest(
                group_id=group,
                member_id=place.member_id,
                generation_id_or_member_epoch=place.generation_id + 1,
                topics=[topic],
            )
            assert raw.call(ahead, 9).topics[0].partitions[0].error_code == 113
        with workers(kafka, group, group, 1, group_protocol="consumer") as (other,):
            wait_until(lambda: reader.poll(50) is None or (len(other.owned) == 1 and len(reader.assignment()) == 1))
            wait_until(lambda: reader.poll(50) is None or reader.group_metadata().generation_id > place.generation_id)
            (mine,) = reader.assignment()
            reader.commit({mine: OffsetAndMetadata(5)})
            kept = reader.committed(mine)
            assert kept is not None
            assert kept.offset == 5


@everywhere
def test_without_polls_a_member_leaves_and_the_next_poll_joins_again(kafka: Peer, group: str) -> None:
    partitions = make_topic(kafka, group, 2)
    heard = Recorder()
    with member(kafka, group, max_poll_interval_ms=2_000) as reader:
        reader.subscribe([group], listener=heard)
        owns(reader, partitions)
        wait_until(lambda: reader.metrics()["state"] == "STALE", what="the end of the interval")
        owns(reader, partitions)
        assert [call for call, _ in heard.moves] == ["assigned", "lost", "assigned"]
