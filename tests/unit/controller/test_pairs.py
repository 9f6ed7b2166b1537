"""The controller's rules for partitions that are led together."""

from __future__ import annotations

import random
from typing import Any

import pytest

from actors.controller.decisions.elections import (
    all_stopped,
    broker_leaving,
    broker_lost,
    broker_registered,
    leadership_balanced,
    preferred_elected,
)
from actors.wire.errors import ErrorCode
from placement.metadata import (
    NO_LEADER,
    BrokerInfo,
    ClusterMetadata,
    PartitionInfo,
    TopicInfo,
)
from placement.records import METADATA_VERSION, BrokerRecord, FeatureLevelRecord, PartitionRecord, Record, TopicRecord
from tests.support.decisions import Cluster

TOPIC_ID, STATE = b"t" * 16, "__state"
BROKERS = (0, 1, 2)


class Pair(Cluster):
    """Topic t with one partition on three brokers, and its state partition."""

    def __init__(self, **settings: str) -> None:
        super().__init__(**settings)
        self.metadata.apply(TopicRecord(TopicInfo("t", TOPIC_ID, (PartitionInfo(0, 0, BROKERS, BROKERS),))))
        assert self.pair() == 0

    def pair(self) -> int:
        asked = {"topic_id": TOPIC_ID, "index": 0, "state_topic": STATE, "configs": {"retention.ms": "-1"}}
        return int(self.do("create_state_partition", **asked)["error_code"])

    @property
    def data(self) -> PartitionInfo:
        return self.partitions("t")[0]

    @property
    def state(self) -> PartitionInfo:
        return self.partitions(STATE)[0]

    @property
    def leaders(self) -> tuple[int, int]:
        return self.data.leader, self.state.leader

    def set(self, *, data: tuple[Any, ...] | None = None, state: tuple[Any, ...] | None = None) -> None:
        """Give them a leader, an in-sync set and eligible replicas, however that may have come."""
        for topic, fields in (("t", data), (STATE, state)):
            if fields is not None:
                leader, isr, *elr = fields
                made = PartitionInfo(leader, 3, BROKERS, isr, 5, elr[0] if elr else ())
                self.metadata.apply(PartitionRecord(topic, 0, made))

    def follow(self, records: list[Record]) -> list[str]:
        """Apply records; their kinds."""
        for record in records:
            self.metadata.apply(record)
        assert self.state.leader in (NO_LEADER, self.data.leader)
        assert ClusterMetadata.from_wire(self.metadata.to_wire()) == self.metadata
        return [record.KIND for record in records if not isinstance(record, BrokerRecord)]

    def lost(self, broker_id: int) -> list[str]:
        return self.follow(broker_lost(self.metadata, broker_id, config=self.config))

    def comes(self, broker_id: int, epoch: int = 1, *, intact: bool = True) -> list[str]:
        self.metadata.apply(BrokerRecord(BrokerInfo(broker_id, "h", 9092, None, epoch)))
        return self.follow(broker_registered(self.metadata, broker_id, intact=intact, config=self.config))

    def proposes(self, topic: str, *isr: int) -> None:
        """The leader of one of the two proposes an in-sync set."""
        of = self.partitions(topic)[0]
        members = [[broker, self.metadata.brokers[broker].epoch] for broker in isr]
        asked = [self.metadata.topics[topic].id, 0, of.leader_epoch, of.partition_epoch, members]
        sender = self.metadata.brokers[of.leader]
        self.do("alter_partitions", broker_id=sender.id, broker_epoch=sender.epoch, partitions=[asked])

    def moves(self, topic: str, *target: int) -> int:
        asked = [[topic, 0, list(target) or None]]
        (row,) = self.do("alter_reassignments", partitions=asked, allow_factor_change=True)
        return int(row["error_code"])

    def elects(self, topic: str, kind: int) -> int:
        (row,) = self.do("elect_leaders", type=kind, partitions=[[topic, 0]])
        return int(row["error_code"])


def test_a_state_partition_has_the_replicas_and_the_leader_of_its_data_partition() -> None:
    pair = Pair()
    assert (pair.state.leader, pair.state.replicas, pair.state.isr) == (0, BROKERS, BROKERS)
    assert pair.metadata.pairs.states_of(TOPIC_ID, 0) == ((STATE, 0),)
    assert pair.metadata.topics[STATE].configs == {"retention.ms": "-1"}
    assert STATE in pair.metadata.internal_topics
    assert pair.pair() == 0, "again"
    assert len(pair.partitions(STATE)) == 1


def test_a_second_data_partition_gets_the_next_state_partition() -> None:
    pair = Pair()
    pair.metadata.apply(PartitionRecord("t", 1, PartitionInfo(2, 0, (2, 1), (2, 1))))
    pair.do("create_state_partition", topic_id=TOPIC_ID, index=1, state_topic=STATE, configs={})
    assert pair.metadata.pairs.states_of(TOPIC_ID, 1) == ((STATE, 1),)
    assert pair.partitions(STATE)[1] == PartitionInfo(2, 0, (2, 1), (2, 1))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
        (PartitionInfo(NO_LEADER, 0, BROKERS, (0,)), ErrorCode.LEADER_NOT_AVAILABLE),
        (PartitionInfo(0, 0, BROKERS, (0,), adding=(2,)), ErrorCode.REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_no_state_partition_is_made_for_what_cannot_be_led_with_it(data: PartitionInfo | None, code: ErrorCode) -> None:
    cluster = Cluster()
    if data is not None:
        cluster.metadata.apply(TopicRecord(TopicInfo("t", TOPIC_ID, (data,))))
    asked = {"topic_id": TOPIC_ID, "index": 0, "state_topic": STATE, "configs": {}}
    assert cluster.do("create_state_partition", **asked)["error_code"] == code
    assert STATE not in cluster.metadata.topics


def test_an_older_release_is_written_no_record_that_it_does_not_know() -> None:
    pair = Pair()
    pair.metadata.apply(FeatureLevelRecord(METADATA_VERSION, 1))
    refused = pair.do("create_state_partition", topic_id=TOPIC_ID, index=0, state_topic="__other", configs={})
    assert refused["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert refused["error_message"] == "metadata.version is 1: state partitions come with level 2"
    assert "__other" not in pair.metadata.topics


def test_one_record_moves_both() -> None:
    pair = Pair()
    assert pair.lost(0) == ["together"]
    assert pair.leaders == (1, 1)
    assert (pair.data.isr, pair.state.isr) == ((1, 2), (1, 2))


def test_a_candidate_must_be_electable_for_both() -> None:
    pair = Pair()
    pair.set(data=(0, (0, 1, 2)), state=(0, (0, 2)))
    assert pair.lost(0) == ["together"]
    assert pair.leaders == (2, 2), "broker 1 comes first, but lacks state"


def test_an_eligible_replica_that_may_lead_both_comes_before_one_that_may_lead_the_data_alone() -> None:
    pair = Pair()
    pair.set(data=(0, (0, 1)), state=(0, (0,), (1, 2)))
    pair.lost(0)
    assert pair.leaders == (1, 1)


def test_the_users_data_is_led_even_if_nobody_can_lead_its_state_too() -> None:
    pair = Pair()
    pair.set(data=(0, (0, 1)), state=(0, (0, 2)))
    pair.lost(2)
    pair.lost(0)
    assert pair.leaders == (1, NO_LEADER), "broker 1 lacks state"
    pair.comes(0)
    assert pair.leaders == (1, NO_LEADER), "broker 0 lacks data"
    pair.proposes("t", 0, 1)
    assert pair.leaders == (0, 0)


def test_a_state_partition_without_a_leader_gets_one_with_the_broker_that_leads_the_data() -> None:
    pair = Pair()
    pair.set(data=(0, (0, 1)), state=(NO_LEADER, (1,)))
    pair.lost(0)
    assert pair.leaders == (1, 1)


def test_the_data_stays_where_it_is_if_its_state_is_torn_there_and_nobody_else_has_both() -> None:
    pair = Pair()
    pair.set(data=(0, (0,)), state=(0, (0, 1)))
    pair.do("replica_torn", broker_id=0, broker_epoch=0, partitions=[[pair.metadata.topics[STATE].id, 0]])
    assert pair.leaders == (0, NO_LEADER)
    assert pair.state.isr == (1,), "what is torn does not lead"
    pair.proposes("t", 0, 1)
    assert pair.leaders == (1, 1)


def test_both_move_if_the_state_is_torn_and_another_has_both() -> None:
    pair = Pair()
    pair.do("replica_torn", broker_id=0, broker_epoch=0, partitions=[[pair.metadata.topics[STATE].id, 0]])
    assert pair.leaders == (1, 1)
    assert (pair.data.isr, pair.state.isr) == (BROKERS, (1, 2))


def test_the_last_replica_of_the_state_leads_it_at_a_new_epoch_when_it_is_torn() -> None:
    pair = Pair()
    pair.set(data=(0, (0, 1)), state=(0, (0,)))
    pair.do("replica_torn", broker_id=0, broker_epoch=0, partitions=[[pair.metadata.topics[STATE].id, 0]])
    assert pair.leaders == (0, 0)
    assert pair.state.leader_epoch == 4
    assert pair.data.leader_epoch == 3


def test_a_replaced_process_leads_both_at_new_epochs() -> None:
    pair = Pair()
    epochs = pair.data.leader_epoch, pair.state.leader_epoch
    assert pair.comes(0, 1) == ["together"]
    assert pair.leaders == (0, 0)
    assert (pair.data.leader_epoch, pair.state.leader_epoch) == (epochs[0] + 1, epochs[1] + 1)


def test_a_torn_broker_leads_neither() -> None:
    pair = Pair()
    pair.lost(0)
    pair.comes(0, 1, intact=False)
    assert pair.leaders == (1, 1)
    pair.set(data=(1, (1, 2)), state=(1, (1,), (0,)))
    pair.lost(1)
    assert pair.leaders == (2, NO_LEADER), "broker 2 lacks state, broker 0 data"


def test_a_broker_that_leaves_hands_over_both() -> None:
    pair = Pair()
    assert pair.follow(broker_leaving(pair.metadata, 0, config=pair.config)) == ["together"]
    assert pair.leaders == (1, 1)


def test_a_broker_that_leaves_keeps_both_if_nobody_else_has_the_data() -> None:
    pair = Pair()
    pair.set(data=(0, (0,)), state=(0, (0, 1)))
    pair.follow(broker_leaving(pair.metadata, 0, config=pair.config))
    assert pair.leaders == (0, 0)
    assert 0 in pair.state.isr


def test_all_stop_together() -> None:
    pair = Pair()
    assert pair.follow(all_stopped(pair.metadata)) == ["together"]
    assert pair.leaders == (NO_LEADER, NO_LEADER)
    pair.comes(2, 1)
    assert pair.leaders == (2, 2)


@pytest.mark.parametrize("balance", [preferred_elected, lambda metadata: leadership_balanced(metadata, 10)])
def test_the_preferred_replica_leads_both_or_neither(balance: Any) -> None:
    pair = Pair()
    pair.set(data=(1, BROKERS), state=(1, (1, 2)))
    assert pair.follow(balance(pair.metadata)) == []
    pair.set(data=(1, (1, 2)), state=(1, BROKERS))
    assert pair.follow(balance(pair.metadata)) == []
    pair.set(data=(1, BROKERS), state=(1, BROKERS))
    assert pair.follow(balance(pair.metadata)) == ["together"]
    assert pair.leaders == (0, 0)


def test_an_in_sync_set_of_one_changes_nothing_of_the_other() -> None:
    pair = Pair()
    state = pair.state
    pair.proposes("t", 0, 1)
    assert (pair.data.isr, pair.state) == ((0, 1), state)


@pytest.mark.parametrize("asked", ["t", STATE])
def test_a_move_of_one_is_a_move_of_both_and_ends_for_both(asked: str) -> None:
    pair = Pair()
    pair.metadata.apply(BrokerRecord(BrokerInfo(3, "h", 9092, None, 0)))
    assert pair.moves(asked, 3, 1) == 0
    assert pair.data.adding == pair.state.adding == (3,)
    pair.proposes("t", 0, 1, 2, 3)
    assert pair.data.removing == (0, 2), "the state is not there yet"
    pair.proposes(STATE, 0, 1, 3)
    assert pair.data.replicas == pair.state.replicas == (3, 1)
    assert pair.leaders == (3, 3)
    assert pair.data.removing == pair.state.removing == ()


def test_a_move_of_both_is_cancelled_for_both() -> None:
    pair = Pair()
    pair.metadata.apply(BrokerRecord(BrokerInfo(3, "h", 9092, None, 0)))
    pair.moves("t", 3, 1)
    assert pair.moves(STATE) == 0
    assert pair.data.replicas == pair.state.replicas == (1, 0, 2)
    assert pair.leaders == (0, 0)
    assert pair.moves("t") == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_nobody_elects_a_leader_for_the_state_alone() -> None:
    pair = Pair()
    pair.set(data=(1, BROKERS), state=(1, BROKERS))
    assert pair.elects(STATE, 0) == ErrorCode.ELECTION_NOT_NEEDED
    assert pair.elects("t", 0) == 0
    assert pair.leaders == (0, 0)
    pair.set(data=(1, BROKERS), state=(1, (1,)))
    assert pair.elects("t", 0) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_an_unclean_election_of_the_state_gives_it_the_leader_of_the_data() -> None:
    pair = Pair()
    pair.set(data=(1, (1,)), state=(NO_LEADER, (0,)))
    pair.lost(0)
    assert pair.elects(STATE, 1) == 0
    assert pair.leaders == (1, 1)
    assert pair.state.unclean
    assert not pair.data.unclean


def test_unclean_elections_of_both_go_together() -> None:
    pair = Pair(**{"unclean.leader.election.enable": "true"})
    pair.set(data=(0, (0,)), state=(0, (0,)))
    pair.lost(0)
    assert pair.leaders == (1, 1)
    assert pair.data.unclean
    assert pair.state.unclean


def delete(pair: Pair, name: str) -> int:
    (row,) = pair.do("delete_topics", topics=[{"name": name, "topic_id": None}])
    return int(row["error_code"])


def test_the_topic_of_the_state_stays_and_stays_internal_when_that_of_the_data_is_deleted() -> None:
    pair = Pair()
    assert delete(pair, STATE) == ErrorCode.INVALID_REQUEST
    assert delete(pair, "t") == 0
    assert STATE in pair.metadata.internal_topics
    assert ClusterMetadata.from_wire(pair.metadata.to_wire()).internal_topics == pair.metadata.internal_topics
    pair.lose(0)
    assert pair.state.leader == 1, "it is a partition of its own now"
    pair.metadata.apply(TopicRecord(TopicInfo("t", b"T" * 16, (PartitionInfo(1, 0, BROKERS, BROKERS),))))
    pair.do("create_state_partition", topic_id=b"T" * 16, index=0, state_topic=STATE, configs={})
    assert pair.metadata.pairs.states_of(b"T" * 16, 0) == ((STATE, 1),)
    assert delete(pair, STATE) == ErrorCode.INVALID_REQUEST


def test_a_topic_of_states_goes_with_all_its_pairs_once_no_data_is_left() -> None:
    pair = Pair()
    delete(pair, "t")
    assert delete(pair, STATE) == 0
    assert not pair.metadata.pairs
    assert STATE not in pair.metadata.internal_topics


def test_a_topic_that_a_user_has_made_is_not_taken_for_states() -> None:
    cluster = Cluster()
    cluster.create({"name": "t"}, {"name": STATE, "configs": {"retention.ms": "1"}})
    asked = {"topic_id": cluster.metadata.topics["t"].id, "index": 0, "state_topic": STATE, "configs": {}}
    assert cluster.do("create_state_partition", **asked)["error_code"] == ErrorCode.TOPIC_ALREADY_EXISTS
    assert not cluster.metadata.pairs


def test_a_state_partition_that_lags_in_a_move_is_never_led_by_a_broker_that_has_no_replica_of_it() -> None:
    """The replicas of the two parted when the move was begun anew; then an unclean election chose one of the data's."""
    pair = Pair()
    pair.metadata.apply(PartitionRecord("t", 0, PartitionInfo(3, 3, (3, 0, 1), (3, 0), 5, (), (3,), (1,))))
    pair.metadata.apply(PartitionRecord(STATE, 0, PartitionInfo(NO_LEADER, 3, (3, 0, 1), (0,), 5, (), (3,), (1,))))
    pair.metadata.apply(BrokerRecord(BrokerInfo(3, "h", 9092, None, 0)))
    pair.lost(0)
    for target in ((2, 1), ()):
        assert pair.moves("t", *target) == 0
        assert set(pair.state.replicas) == set(pair.data.replicas)
    pair.elects(STATE, 1)
    assert pair.state.leader in (NO_LEADER, *pair.state.replicas)


class Chance:
    """Brokers that come and go, tear, leave and move, as a seed has it; and what must hold after each step."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.pair = Pair(min_insync_replicas=self.chance.choice("12"))
        self.pair.metadata.apply(BrokerRecord(BrokerInfo(3, "h", 9092, None, 0)))

    def step(self) -> None:
        pair, chance, broker = self.pair, self.chance, self.chance.randrange(4)
        alive = pair.metadata.brokers[broker].alive
        topic = chance.choice(("t", STATE))
        match chance.randrange(8):
            case 0 | 1 if alive:
                pair.lost(broker)
            case 2 | 3 if not alive:
                self.come(broker)
            case 4 if pair.partitions(topic)[0].leader >= 0:
                others = [b for b in self.followers(topic) if chance.random() < 0.7]
                pair.proposes(topic, pair.partitions(topic)[0].leader, *others)
            case 5 if alive:
                epoch, torn = pair.metadata.brokers[broker].epoch, [[pair.metadata.topics[topic].id, 0]]
                pair.do("replica_torn", broker_id=broker, broker_epoch=epoch, partitions=torn)
            case 6 if alive:
                pair.follow(broker_leaving(pair.metadata, broker, config=pair.config))
                pair.lost(broker)
            case 7:
                pair.moves(topic, *(() if chance.random() < 0.2 else chance.sample(range(4), chance.randint(2, 3))))
            case 5:
                pair.elects(topic, 1)
        self.judge()

    def come(self, broker: int) -> None:
        epoch = self.pair.metadata.brokers[broker].epoch + 1
        self.pair.comes(broker, epoch, intact=self.chance.random() < 0.7)

    def followers(self, topic: str) -> list[int]:
        partition = self.pair.partitions(topic)[0]
        return [b for b in partition.replicas if b != partition.leader and self.pair.metadata.brokers[b].alive]

    def judge(self) -> None:
        data, state = self.pair.data, self.pair.state
        assert state.leader in (NO_LEADER, data.leader)
        assert set(state.replicas) == set(data.replicas)
        assert (state.adding, state.removing) == (data.adding, data.removing)
        for each in (data, state):
            assert each.isr
            assert each.leader == NO_LEADER or each.leader in each.isr
            assert {*each.isr, *each.elr} <= set(each.replicas)


@pytest.mark.parametrize("seed", range(100))
def test_whatever_happens_the_state_is_led_with_the_data_and_in_the_end_both_are(seed: int) -> None:
    run = Chance(seed)
    for _ in range(60):
        run.step()
    for broker in range(4):
        if not run.pair.metadata.brokers[broker].alive:
            run.come(broker)
    for _ in range(2):
        for topic in ("t", STATE):
            if (leader := run.pair.partitions(topic)[0].leader) >= 0:
                run.pair.proposes(topic, leader, *run.followers(topic))
            run.judge()
    assert run.pair.data.leader == run.pair.state.leader >= 0


def test_a_cluster_without_pairs_has_the_image_that_it_had() -> None:
    cluster = Cluster()
    cluster.metadata.features.clear()
    assert len(cluster.metadata.to_wire()) == 7, "an image ends with the last value that is not its default"
    pair = Pair()
    assert ClusterMetadata.from_wire(pair.metadata.without_security().to_wire()).pairs == pair.metadata.pairs
