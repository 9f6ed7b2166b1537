"""Nodes that are lost for good, or so it seems, and the replacement of their brokers. Invariants:

directory           a broker whose directory is not that of the metadata gets no image, and does not lead; one whose
                    directory is awaited is in no set
isolated            no broker leads that no controller has confirmed for `coterie.broker.isolated.ms`
throttle-kept       followers out of sync are sent no more than `leader.replication.throttled.rate`
sole-copy-named     no broker is replaced by itself while it alone has everything of a partition
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from actors.broker.images import Images
from actors.broker.replication.manager import ReplicaManager
from actors.controller.metadata.publisher import Publisher
from actors.log.replication import LeaderReplica, Push
from placement.metadata import ClusterMetadata, Directory, PartitionInfo
from placement.records import BrokerDirectoryRecord, Record
from tests.sim.engine import MS, SECOND
from tests.sim.scenario import ALONE_MS, REFILL_RATE

if TYPE_CHECKING:
    from actors.broker.server import BrokerServer
    from tests.sim.run import World
    from tests.sim.sim_broker import SimBroker

_SLACK_US = 20 * MS
_ASK_US = 250 * MS
_PUSH_MAX = 4_500  # a segment: one push more than the tokens of a second are enough for


class LostNodes:
    """Loses nodes, and watches."""

    def __init__(self, world: World) -> None:
        self.sim = world.sim
        self.cluster = world.cluster
        self.witness = world.witness
        self.has_copies = world.scenario.replicas > 1
        self.replaced = 0
        self._sent: dict[int, tuple[float, int]] = {}  # by leader's process: bytes above the rate, and up to when

    def lose(self) -> bool:
        """Lose one node at a time. Others have its records, too; without other copies, it comes back in the end."""
        chance = self.sim.random
        broker = chance.choice(self.cluster.present)
        if any(each.lost or not each.machine.up for each in self.cluster.present):
            return False
        if not self.has_copies:
            away_us = chance.randint(ALONE_MS + 1_000, ALONE_MS + 4_000) * MS
            broker.lose_node(runs_on_us=away_us, reached=True)
            self._ask(broker)
            self.sim.after(away_us, self._is_back, broker.id, broker.nodes)
            return True
        if not self.witness.crashes.may_lose_disk(broker):
            return False
        runs_on_us = chance.choice((0, chance.randint(1, 9) * SECOND))
        broker.lose_node(runs_on_us=runs_on_us, reached=chance.random() < 0.5)
        self._ask(broker)
        return True

    def _ask(self, broker: SimBroker) -> None:
        """A client that hears of no other leader asks the broker on and on."""
        process, server = broker.process, broker.server
        if broker.lost and process is not None and process.alive:
            if server is not None:
                self.sim.at(self.sim.now, process, self._ask_for_all, server)
            self.sim.after(_ASK_US, self._ask, broker)

    @staticmethod
    def _ask_for_all(server: BrokerServer) -> None:
        for topic in server.context.metadata.topics.values():
            for index, partition in enumerate(topic.partitions):
                if partition.leader == server.context.broker_id:
                    server.replicas.leads(topic.name, index, partition)

    def _is_back(self, broker_id: int, nodes: int) -> None:
        broker = self.cluster.brokers[broker_id]
        if broker.nodes == nodes:
            broker.lost = False

    def figures(self) -> dict[str, int]:
        return {"replaced": self.replaced, "fenced": sum(broker.fenced for broker in self.cluster.brokers)}

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """The functions of the product that are exchanged for the length of the run."""
        return [
            (Images, "apply", self._watch_images(Images.apply)),
            (ReplicaManager, "leads", self._watch_leads(ReplicaManager.leads)),
            (LeaderReplica, "take_push", self._watch_refill(LeaderReplica.take_push)),
            (Publisher, "commit", self._watch_replacements(Publisher.commit)),
        ]

    def _watch_images(self, product: Any) -> Any:
        def apply(images: Images, metadata: ClusterMetadata) -> None:
            process = self.sim.process
            assert process is not None
            if process in self.cluster.opened:
                context = self.cluster.opened[process].context
                self._judge_directory(context.broker_id, context.data_dir.directory_id, metadata, "is told of it")
            product(images, metadata)

        return apply

    def _watch_leads(self, product: Any) -> Any:
        def leads(manager: ReplicaManager, topic: str, index: int, partition: PartitionInfo) -> bool:
            does: bool = product(manager, topic, index, partition)
            if does:
                process = self.sim.process
                assert process is not None
                context = self.cluster.opened[process].context
                what = f"leads {topic}-{index}"
                self._judge_directory(context.broker_id, context.data_dir.directory_id, self.cluster.truth, what)
                heard_us = self.witness.heard_by_a_controller(process)
                silent_us = self.sim.now - heard_us if heard_us is not None else 0
                if silent_us > ALONE_MS * MS + _SLACK_US:
                    self.sim.fail("isolated", f"{process.name} {what}; no controller for {silent_us // MS} ms")
            return does

        return leads

    def _judge_directory(self, broker_id: int, own: str, metadata: ClusterMetadata, what: str) -> None:
        known = metadata.directories.get(broker_id)
        if known is not None and known.id != own:
            self.sim.fail("directory", f"broker {broker_id} with {own} {what}, and has {known} by now")

    def _watch_refill(self, product: Any) -> Any:
        def take_push(leader: LeaderReplica, broker: int, *arguments: Any, **options: Any) -> Push | None:
            push: Push | None = product(leader, broker, *arguments, **options)
            if push is not None and push.records and broker not in leader.isr:
                process, now = self.sim.process, self.sim.now
                assert process is not None
                above, since = self._sent.get(process.pid, (0.0, now))
                above = max(above - REFILL_RATE * (now - since) / SECOND, 0.0) + len(push.records)
                self._sent[process.pid] = above, now
                if above > REFILL_RATE + _PUSH_MAX:
                    self.sim.fail("throttle-kept", f"{process.name} has sent {above:.0f} bytes above the rate")
            return push

        return take_push

    def _watch_replacements(self, product: Any) -> Any:
        def commit(publisher: Publisher, records: Sequence[Record], **options: Any) -> Any:
            replaced = [
                record.broker_id
                for record in records
                if isinstance(record, BrokerDirectoryRecord) and record.directory.awaited
            ]
            before = publisher.decided.copy() if replaced else None
            made = product(publisher, records, **options)
            for broker_id in replaced:
                assert before is not None
                self._judge_replacement(before, publisher.decided, broker_id)
            return made

        return commit

    def _judge_replacement(self, before: ClusterMetadata, after: ClusterMetadata, broker_id: int) -> None:
        self.replaced += 1
        self.sim.say(f"broker {broker_id} is replaced")
        for topic in before.topics.values():
            for index, partition in enumerate(topic.partitions):
                if {*partition.isr, *partition.elr} == {broker_id}:
                    self.sim.fail("sole-copy-named", f"broker {broker_id} alone had {topic.name}-{index}: {partition}")
                now = after.partition(topic.name, index)
                if now is not None and broker_id in (*now.isr, *now.elr):
                    self.sim.fail(
                        "directory", f"broker {broker_id} is replaced and in a set: {topic.name}-{index} {now}"
                    )
        assert after.directories[broker_id] == Directory(after.directories[broker_id].id, awaited=True)
