"""Topics that change while groups are at work: one grows, another comes and goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.controller.active import ActiveController
from actors.links.operations import (
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DoomedTopic,
    GrownTopic,
    NewTopic,
    Operation,
    Result,
)
from tests.sim.scenario import COMES_AND_GOES, GROWING

if TYPE_CHECKING:
    from tests.sim.run import World

_MOST_PARTITIONS = 5


class Topics:
    """Has the controller change them, as an administrator's client would."""

    def __init__(self, world: World) -> None:
        self.sim = world.sim
        self.cluster = world.cluster

    def topic_grows(self) -> bool:
        """The topic that grows comes with one partition, and gets another one each time."""
        topic = self.cluster.truth.topics.get(GROWING)
        if topic is None:
            return self._ask(CreateTopics((NewTopic(GROWING, 1),)))
        count = len(topic.partitions) + 1
        return count <= _MOST_PARTITIONS and self._ask(CreatePartitions((GrownTopic(GROWING, count),)))

    def topic_comes_or_goes(self) -> bool:
        if COMES_AND_GOES in self.cluster.truth.topics:
            return self._ask(DeleteTopics((DoomedTopic(COMES_AND_GOES),)))
        return self._ask(CreateTopics((NewTopic(COMES_AND_GOES, self.sim.random.randint(1, 3)),)))

    def _ask(self, operation: Operation[Result]) -> bool:
        server, process = self.cluster.controller, self.cluster.controller_process
        if server is None or process is None or not process.alive:
            return False
        self.sim.say(f"{operation}")
        self.sim.at(self.sim.now, process, self._decide, server, operation)
        return True

    @staticmethod
    def _decide(server: ActiveController, operation: Operation[Result]) -> None:
        _, records = server.decide(operation)
        server.publisher.commit(records)
