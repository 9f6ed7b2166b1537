"""Crashes of machines that a run may have: one at a time, so that what was acknowledged is somewhere."""

from __future__ import annotations

from tests.sim.cluster import Cluster
from tests.sim.sim_broker import SimBroker


class Crashes:
    """The machines whose last crash is still felt, with the epoch of their brokers then."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._torn: dict[int, int] = {}

    def may_lose_disk(self, broker: SimBroker) -> bool:
        """True if other brokers have everything on intact disks, so that this one's may be lost for good."""
        self.may_lose(broker)  # it forgets brokers that are back
        truth = self.cluster.truth
        partitions = [p for topic in truth.topics.values() for p in topic.partitions]
        if self._torn.keys() - {broker.id} or not all({*p.isr, *p.elr} - {broker.id} for p in partitions):
            return False
        self._torn[broker.id] = truth.brokers[broker.id].epoch
        return True

    def may_lose(self, broker: SimBroker) -> bool:
        """True if no other machine's crash is still felt: all that were torn are back in every in-sync set."""
        truth = self.cluster.truth
        partitions = [p for topic in truth.topics.values() for p in topic.partitions]
        for torn, epoch in list(self._torn.items()):
            if torn in truth.removed:
                del self._torn[torn]
                continue
            back = truth.brokers[torn].alive and truth.brokers[torn].epoch > epoch
            if back and all(torn in p.isr for p in partitions):
                del self._torn[torn]
        if self._torn or not all(len(set(p.isr) - {broker.id}) >= 2 for p in partitions):
            return False
        self._torn[broker.id] = truth.brokers[broker.id].epoch
        return True
