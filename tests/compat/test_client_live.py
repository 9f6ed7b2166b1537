"""Our own Consumer, Producer and Admin against real brokers: franz-go's kfake, Apache Kafka, and Coterie."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from actors.client import Admin, ConsumerRebalanceListener, OffsetAndMetadata, Producer, TopicPartition
from actors.client.admin.types import ConfigResource, NewTopic
from actors.client.errors import CommitFailedError, GroupIdNotFoundError, NonEmptyGroupError, TopicAlreadyExistsError
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.watch.heartbeats import Heartbeats, Membership
from actors.runtime.environment import REAL
from actors.wire.config_resources import ConfigResourceType
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
from tests.compat.raw import await_topics, leader_of
from tests.compat.support import ONE_PROCESS, against, wait_until
from tests.support.consuming import Watched

pytestmark = ONE_PROCESS

everywhere = against("kfake", "kafka", "coterie")
STRATEGIES = [["range"], ["roundrobin"], ["sticky"], ["cooperative-sticky"]]


@pytest.mark.conformance("E-29")
@everywhere
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda names: names[0])
def test_a_group_splits_a_topic_through_joins_and_leaves(kafka: Peer, name: str, strategy: list[str]) -> None:
    partitions = make_topic(kafka, name)
    settings = {"partition_assignment_strategy": strategy, "auto_commit_interval_ms": 200}
    with workers(kafka, name, name, 2, **settings) as running:
        wait_until(divided(running, partitions), what="two members with everything between them")
        produce(kafka, name, numbered(600))
        wait_until(lambda: len({v for w in running for v in w.values}) == 600, what="all records")
        running.append(Worker(kafka, name, name, **settings))
        # Evenly: a member that is late with giving up its share divides it for a moment in another way.
        even = lambda: all(len(worker.owned) == COUNT // 3 for worker in running)  # noqa: E731
        wait_until(lambda: divided(running, partitions)() and even(), what="three members")
        running.pop(0).end()
        wait_until(divided(running, partitions), what="two members again")
        produce(kafka, name, numbered(100, 600))
        wait_until(lambda: len({v for w in running for v in w.values if v >= b"value-000600"}) == 100, what="the rest")
        assert [error for worker in running for error in worker.errors] == []


@against("kafka", "coterie")
def test_a_process_that_is_stopped_beyond_its_session_loses_its_share_once_and_gets_one_again(
    kafka: Peer, name: str, tmp_path: Path
) -> None:
    partitions = make_topic(kafka, name)
    said = tmp_path / "said"
    settings = {"session_timeout_ms": 6_000, "partition_assignment_strategy": ["range"]}

    def words() -> list[list[str]]:
        return [line.split() for line in said.read_text().splitlines()]

    with (
        narrator(kafka, name, said, **settings) as stopped,
        workers(kafka, name, name, 1, **settings) as (other,),
    ):
        half = ["assigned", str(COUNT // 2)]

        def shared() -> bool:
            return len(other.owned) == COUNT // 2 and [each[:2] for each in words()[-1:]] == [half]

        wait_until(shared, what="both members")
        before = words()
        generation = int(before[-1][2])
        stopped.send_signal(signal.SIGSTOP)
        wait_until(lambda: other.owned == set(partitions), what="its share at the other")
        assert words() == before
        stopped.send_signal(signal.SIGCONT)
        wait_until(shared, what="both again")
        # One rebalance without it, one with it.
        (lost, _, _), assigned = words()[len(before) :]
        assert (lost, assigned) == ("lost", [*half, str(generation + 2)])
        assert other.errors == []


@against("kafka", "coterie")
def test_a_member_that_says_nothing_beyond_its_session_keeps_its_share_while_another_process_sends_its_heartbeats(
    kafka: Peer, name: str, tmp_path: Path
) -> None:
    """A pool does so for a handler that keeps the interpreter's lock. Another silent member shows that its session is
    over."""
    make_topic(kafka, name)
    words = {each: tmp_path / each for each in ("kept", "lost")}
    settings = {"session_timeout_ms": 6_000, "partition_assignment_strategy": ["cooperative-sticky"]}

    def said(who: str) -> list[list[str]]:
        return [line.split() for line in words[who].read_text().splitlines()]

    def owned(who: str) -> int:
        return sum(int(count) if what == "assigned" else -int(count) for what, count, _ in said(who))

    def shared() -> bool:
        return owned("kept") == owned("lost") == COUNT // 2

    with (
        narrator(kafka, name, words["kept"], group_instance_id="kept", **settings) as kept,
        narrator(kafka, name, words["lost"], group_instance_id="lost", **settings) as lost,
        Admin(bootstrap_servers=kafka.bootstrap_servers) as admin,
    ):

        def members() -> dict[str | None, str]:
            (group,) = admin.describe_consumer_groups([name])
            return {each.group_instance_id: each.member_id for each in group.members}

        wait_until(shared, what="both members")
        for process in (kept, lost):
            process.send_signal(signal.SIGSTOP)
        before, generation = said("kept"), int(said("lost")[-1][2])
        me = Membership("kept", members()["kept"], generation)
        heartbeats = Heartbeats(lambda: MemberSpec((name,), name, kafka.bootstrap_servers), REAL)

        def only_me() -> bool:
            heartbeats.send(me)
            return members() == {"kept": me.member_id}

        wait_until(only_me, what="the end of the other one's session")
        for _ in range(3):
            only_me()  # now the group rebalances, and waits for its member
        heartbeats.close()
        kept.send_signal(signal.SIGCONT)
        wait_until(lambda: said("kept")[len(before) :], what="the other half")
        (what, count, later), *_ = said("kept")[len(before) :]
        assert (what, int(count), int(later) > generation) == ("assigned", COUNT // 2, True)


@pytest.mark.conformance("E-29")
@everywhere
def test_different_groups_each_get_everything(kafka: Peer, name: str) -> None:
    make_topic(kafka, name)
    produce(kafka, name, numbered(300))
    for group in (f"{name}-a", f"{name}-b"):
        with consumer(kafka, name, group_id=group) as reader:
            assert Counter(read(reader, 300)) == Counter(numbered(300))


@everywhere
def test_reading_goes_on_where_the_group_stopped(kafka: Peer, name: str) -> None:
    make_topic(kafka, name, 3)
    produce(kafka, name, numbered(100))
    with consumer(kafka, name, group_id=name) as reader:
        assert len(read(reader, 100)) == 100
    produce(kafka, name, numbered(50, 100))
    with consumer(kafka, name, group_id=name, enable_auto_commit=False) as reader:
        assert sorted(read(reader, 50)) == numbered(50, 100)
        reader.commit()
        committed = reader.committed_offsets(reader.assignment())
        assert sum(offset.offset for offset in committed.values() if offset) == 150


@pytest.mark.conformance("E-25", "B-91")
@everywhere
def test_a_static_member_comes_back_to_the_same_partitions(kafka: Peer, name: str) -> None:
    make_topic(kafka, name, 4)
    static = {"group_id": name, "group_instance_id": "one", "session_timeout_ms": 60_000}  # it is to outlast its member
    with consumer(kafka, name, **static) as reader:
        wait_until(lambda: reader.poll(50) is None or reader.assignment(), what="an assignment")
        before = reader.group_metadata()
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        (group,) = admin.describe_consumer_groups([name])
        assert [member.group_instance_id for member in group.members] == ["one"]
        with consumer(kafka, name, **static) as reader:
            wait_until(lambda: reader.poll(50) is None or reader.assignment(), what="the assignment")
            assert len(reader.assignment()) == 4
            assert reader.group_metadata().member_id != before.member_id
        outcome = admin.remove_members_from_consumer_group(name, group_instance_ids=["one"])
        assert outcome == {"one": None}
        (group,) = admin.describe_consumer_groups([name])
        assert group.members == ()


@pytest.mark.conformance("B-81")
@against("kafka", "coterie")
def test_partitions_that_come_while_a_static_leader_is_away_have_an_owner_when_it_is_back(
    kafka: Peer, name: str
) -> None:
    """Its broker tells it to go on with the assignment as it was (KIP-814), which the leader has to ask for."""
    make_topic(kafka, name, 2)
    static = {"group_id": name, "group_instance_id": "one", "session_timeout_ms": 60_000}
    with consumer(kafka, name, **static) as reader:
        wait_until(lambda: reader.poll(50) is None or reader.assignment(), what="an assignment")
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_partitions({name: 4})
        await_topics(kafka.bootstrap_servers, {name: 4})
    with consumer(kafka, name, **static) as reader:
        wait_until(lambda: reader.poll(50) is None or len(reader.assignment()) == 4, what="the new ones, too")
        assert {tp.partition for tp in reader.assignment()} == {0, 1, 2, 3}


@everywhere
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_compression_there_and_back(kafka: Peer, name: str, compression: str) -> None:
    partitions = make_topic(kafka, name, 2)
    produce(kafka, name, numbered(500), compression_type=compression)
    with consumer(kafka) as reader:
        reader.assign(partitions)
        assert sorted(read(reader, 500)) == numbered(500)
        reader.seek_to_beginning()
        columns: list[bytes] = []
        wait_until(lambda: columns.extend(reader.poll_arrow(100).column("value").to_pylist()) or len(columns) >= 500)
        assert sorted(columns) == numbered(500)


@everywhere
@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_acks_and_idempotence(kafka: Peer, name: str, acks: int | str) -> None:
    partitions = make_topic(kafka, name, 1)
    leader_of(kafka.bootstrap_servers, name)  # it serves: records without acknowledgement are not sent again
    with Producer(bootstrap_servers=kafka.bootstrap_servers, acks=acks) as producer:
        assert producer.config.enable_idempotence is (acks == "all")
        futures = [producer.send(name, value) for value in numbered(200)]
        producer.flush(30)
        if acks != 0:
            assert [future.get(0).offset for future in futures] == list(range(200))
    with consumer(kafka) as reader:
        reader.assign(partitions)
        assert read(reader, 200) == numbered(200)


@everywhere
def test_offsets_by_time_and_at_the_ends(kafka: Peer, name: str) -> None:
    (tp,) = make_topic(kafka, name, 1)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for n in range(10):
            producer.send(name, b"v", partition=0, timestamp_ms=1_700_000_000_000 + n * 1000)
            producer.flush(30)
    with consumer(kafka) as reader:
        assert reader.beginning_offsets([tp]) == {tp: 0}
        assert reader.end_offsets([tp]) == {tp: 10}
        found = reader.offsets_for_times({tp: 1_700_000_004_500})[tp]
        assert found is not None
        assert found.offset == 5
        assert reader.offsets_for_times({tp: 1_800_000_000_000}) == {tp: None}


@everywhere
def test_a_pattern_takes_in_what_is_made_later(kafka: Peer, name: str) -> None:
    make_topic(kafka, f"{name}-a", 1)
    with consumer(kafka, group_id=name, metadata_max_age_ms=200) as reader:
        reader.subscribe(pattern=f"{name}-.*")
        wait_until(lambda: reader.poll(50) is None or reader.assignment(), what="the first topic")
        (late,) = make_topic(kafka, f"{name}-b", 1)
        wait_until(lambda: reader.poll(50) is None or late in reader.assignment(), what="the second topic")


@everywhere
def test_revoked_partitions_can_be_committed_in_the_listener(kafka: Peer, name: str) -> None:
    make_topic(kafka, name, 4)
    produce(kafka, name, numbered(100))
    committed: list[set[TopicPartition]] = []

    class Commits(ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
            reader.commit()
            committed.append(set(revoked))

    with consumer(kafka, group_id=name, enable_auto_commit=False) as reader:
        reader.subscribe([name], listener=Commits())
        read(reader, 100)
        with workers(kafka, name, name, 1) as (other,):
            wait_until(lambda: reader.poll(50) is None or (other.owned and len(reader.assignment()) == 2))
            assert len(committed[0]) == 4
            assert other.values == []


@everywhere
def test_kept_partitions_are_read_through_a_rebalance_longer_than_the_session(kafka: Peer, name: str) -> None:
    """A waiting JoinGroup proves nothing: the whole group stood still once one busy member took 45 s."""
    partitions = make_topic(kafka, name, 2)
    settings = {
        "partition_assignment_strategy": ["cooperative-sticky"],
        "session_timeout_ms": 6_000,
        "max_poll_interval_ms": 180_000,
    }

    def member() -> Watched:
        return consumer(kafka, name, group_id=name, **settings)

    with member() as reader, member() as busy:

        def both() -> bool:
            reader.poll(50), busy.poll(50)
            return len(reader.assignment()) == len(busy.assignment()) == 1

        wait_until(both, what="one partition each")
        with workers(kafka, name, name, 1, **settings) as (third,):  # its join waits for `busy`, which does not poll
            wait_until(lambda: reader.poll(50) is None or reader.member.rebalancing, what="a join of the reader")
            begun = time.monotonic()
            wait_until(
                lambda: reader.poll(50) is None or time.monotonic() > begun + 6.5, what="longer than the session"
            )
            assert not reader.session_lapsed()
            (mine,) = reader.assignment()
            with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                producer.send(name, b"late", partition=mine.partition).get(60)
            found = wait_until(lambda: reader.poll(50).get(mine), what="a record after that")
            assert [record.value for record in found][-1] == b"late"
            assert third.owned == set(), "the rebalance is still under way"
            assert {mine} | busy.assignment() == set(partitions)
            # It ends before the third leaves: a broker reads no more of a connection whose join it has not answered.
            wait_until(lambda: busy.poll(50) is None or reader.poll(50) is None or not reader.member.rebalancing)


@everywhere
def test_a_member_removed_from_outside_is_told_and_joins_again(kafka: Peer, name: str) -> None:
    partitions = make_topic(kafka, name, 2)
    events: list[str] = []

    class Watch(ConsumerRebalanceListener):
        def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
            events.append("lost")

        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            events.append("assigned")

    with consumer(kafka, group_id=name, enable_auto_commit=False) as reader:
        reader.subscribe([name], listener=Watch())
        wait_until(lambda: reader.poll(50) is None or reader.assignment())
        with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            admin.remove_members_from_consumer_group(name, member_ids=[reader.group_metadata().member_id])
        with pytest.raises(CommitFailedError):
            reader.commit({partitions[0]: OffsetAndMetadata(0)})
        wait_until(lambda: reader.poll(50) is None or events.count("assigned") == 2)
        assert events == ["assigned", "lost", "assigned"]


@everywhere
def test_admin_topics_settings_and_records(kafka: Peer, name: str) -> None:
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 2, 1, topic_configs={"retention.ms": "3600000"})])
        await_topics(kafka.bootstrap_servers, {name: 2})
        assert name in admin.list_topics()
        with pytest.raises(TopicAlreadyExistsError, match=name):
            admin.create_topics([NewTopic(name, 2, 1)])
        admin.create_partitions({name: 3})
        wait_until(lambda: len(admin.describe_topics([name])[0].partitions) == 3)
        resource = ConfigResource(ConfigResourceType.TOPIC, name)
        assert admin.describe_configs([resource])[resource]["retention.ms"].value == "3600000"
        admin.incremental_alter_configs({resource: {"retention.ms": "7200000"}})
        wait_until(lambda: admin.describe_configs([resource])[resource]["retention.ms"].value == "7200000")
        tp = TopicPartition(name, 0)
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for value in numbered(10):
                producer.send(name, value, partition=0)
        assert admin.delete_records({tp: 4}) == {tp: 4}
        first = admin.list_offsets({tp: "earliest"})[tp]
        assert first is not None
        assert first.offset == 4
        assert admin.describe_cluster().brokers
        admin.delete_topics([name])
        wait_until(lambda: name not in admin.list_topics())


@everywhere
def test_admin_groups_and_their_offsets(kafka: Peer, name: str) -> None:
    tp, other = make_topic(kafka, name, 2)
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        with consumer(kafka, name, group_id=name) as reader:
            wait_until(lambda: reader.poll(50) is None or reader.assignment())
            reader.commit({tp: OffsetAndMetadata(0, "note")})
            (group,) = admin.describe_consumer_groups([name])
            assert (group.state, group.protocol_type, group.protocol) == ("Stable", "consumer", "range")
            assert set(group.members[0].assignment) == {tp, other}
            assert group.members[0].topics == (name,)
            assert group.coordinator == admin.find_coordinator(name)
            with pytest.raises(NonEmptyGroupError):
                admin.delete_consumer_groups([name])
        assert name in [listing.group_id for listing in admin.list_consumer_groups()]
        assert admin.list_consumer_group_offsets(name)[tp].metadata in ("", "note")
        admin.alter_consumer_group_offsets(name, {tp: 5, other: OffsetAndMetadata(6, "here")})
        offsets = admin.list_consumer_group_offsets(name, [tp, other])
        assert (offsets[tp].offset, offsets[other]) == (5, OffsetAndMetadata(6, "here"))
        admin.delete_consumer_group_offsets(name, [tp])
        assert set(admin.list_consumer_group_offsets(name)) == {other}
        admin.delete_consumer_groups([name])
        with pytest.raises(GroupIdNotFoundError):
            admin.delete_consumer_groups([name])
        assert admin.describe_consumer_groups([f"{name}-never"])[0].state == "Dead"
