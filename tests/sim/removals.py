"""Brokers are removed, and others added, during all other faults. Invariants:

removed-stays-out   a broker is unregistered only when no partition has it as a replica; nobody places anything on one
                    that is being removed or was, lets one register that was, or gives its id out again
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import actors.controller.decisions.removal
from actors.controller.active import ActiveController
from actors.controller.metadata.publisher import Publisher
from actors.controller.removing import CannotRemoveError
from placement.metadata import ClusterMetadata
from placement.records import BrokerRecord, Record, UnregisterBrokerRecord
from tests.sim.engine import MS

if TYPE_CHECKING:
    from tests.sim.run import World

_MOST = 4
"""The largest number of brokers at a time."""
_THROTTLES = (None, None, 20_000, 0)
_CHANGES_HIS_MIND = 0.3


class Removals:
    """Removes and adds brokers, and watches."""

    def __init__(self, world: World) -> None:
        self.sim = world.sim
        self.cluster = world.cluster
        self.removed = 0
        self.begun = 0
        self._called_off = 0

    def kinds(self) -> list[Any]:
        """The events; each happens in proportion to its occurrences in this list."""
        return [self.broker_is_removed, self.broker_is_added] * 6

    def figures(self) -> dict[str, int]:
        return {"removals": self.begun, "removed": self.removed, "called_off": self._called_off}

    # -- events

    def broker_is_removed(self) -> bool:
        """A person asks to remove a broker, also one that is down or stands still; with too few it is refused."""
        broker = self.sim.random.choice(self.cluster.present)
        throttle = self.sim.random.choice(_THROTTLES)
        return self._at_the_controller(lambda server: self._begin(server, broker.id, throttle))

    def _begin(self, server: ActiveController, broker_id: int, throttle: int | None) -> None:
        try:
            server.removing.begin(broker_id, throttle)
        except CannotRemoveError as error:
            self.sim.say(str(error))
        else:
            self.begun += 1
            self.sim.say(f"broker {broker_id} is to be removed")
            if self.sim.random.random() < _CHANGES_HIS_MIND:
                self.sim.after(self.sim.random.randint(50, 3_000) * MS, self._removal_is_called_off, broker_id)

    def _removal_is_called_off(self, broker_id: int) -> None:
        self._at_the_controller(lambda server: self._call_off(server, broker_id))

    def _call_off(self, server: ActiveController, broker_id: int) -> None:
        try:
            server.removing.call_off(broker_id)
        except CannotRemoveError as error:
            self.sim.say(str(error))
        else:
            self._called_off += 1
            self.sim.say(f"broker {broker_id} stays")

    def broker_is_added(self) -> bool:
        if len(self.cluster.present) >= _MOST:
            return False
        return self._at_the_controller(self._add)

    def _add(self, server: ActiveController) -> None:
        broker_id = server.next_id()
        if broker_id < len(self.cluster.brokers):
            self.sim.fail("removed-stays-out", f"the id {broker_id} is given out again")
        if len(self.cluster.present) < _MOST:
            self.cluster.add_broker()
            server.add([broker_id])

    def _at_the_controller(self, do: Any) -> bool:
        server, process = self.cluster.controller, self.cluster.controller_process
        if server is None or process is None or not process.alive:
            return False
        self.sim.at(self.sim.now, process, do, server)
        return True

    # -- invariants

    def hooks(self) -> list[tuple[Any, str, Any]]:
        """The functions and constants of the product that are exchanged for the length of the run."""
        few_at_a_time = (actors.controller.decisions.removal, "WAVE", 1)  # else one wave is all of it
        return [few_at_a_time, (Publisher, "commit", self._watch_commits(Publisher.commit))]

    def _watch_commits(self, product: Any) -> Any:
        def commit(publisher: Publisher, records: Sequence[Record], **options: Any) -> Any:
            before = publisher.decided.copy() if records else None
            made = product(publisher, records, **options)
            if before is not None:
                self._judge(before, publisher.decided, records)
            return made

        return commit

    def _judge(self, before: ClusterMetadata, after: ClusterMetadata, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, UnregisterBrokerRecord):
                self.removed += 1
                self.sim.say(f"broker {record.broker_id} is removed")
            if isinstance(record, BrokerRecord) and record.broker.id in before.removed:
                self.sim.fail("removed-stays-out", f"broker {record.broker.id} was removed, and registers")
        for topic in after.topics.values():
            for index, now in enumerate(topic.partitions):
                was = before.partition(topic.name, index)
                if now is was:
                    if after.removed == before.removed:
                        continue
                    new = set(now.replicas) & after.removed
                else:
                    kept = set() if was is None else set(was.replicas) - after.removed
                    new = (set(now.replicas) - kept) & (before.removals.keys() | after.removed)
                if new:
                    self.sim.fail(
                        "removed-stays-out", f"{topic.name}-{index} is {now}, and {sorted(new)} leave or left"
                    )
