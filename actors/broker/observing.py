"""This broker's reports to the Monitor: its counts and events, put together when it is asked."""

from __future__ import annotations

from actors.broker.context import BrokerContext
from actors.broker.coordinators.history import parked, running
from actors.broker.coordinators.host import Coordinators
from actors.broker.entrance.socket_server import SocketServer
from actors.broker.read_for_monitor import MonitorReads
from actors.coordinator_kinds.groups import GROUPS
from actors.links.observations import BrokerObserved, LookAtBroker
from actors.links.rebalances import RUNNING_MAX


class Observing:
    """Answers a Monitor's questions about this broker. No request waits for it, and it asks no shard."""

    def __init__(
        self, context: BrokerContext, coordinators: Coordinators, socket_server: SocketServer, reads: MonitorReads
    ) -> None:
        self.reads = reads
        """The reads of partitions that the Monitor may ask for."""
        self._context = context
        self._coordinators = coordinators
        self._socket_server = socket_server

    def look(self, asked: LookAtBroker) -> BrokerObserved:
        """All there is to see."""
        context, links = self._context, list(self._coordinators.processes.links.values())
        counts, history = context.counts, self._coordinators.history
        topics, left_out = counts.topics.figures(context.metadata.topics)
        return BrokerObserved(
            context.broker_id,
            context.now_ms(),
            self._socket_server.load(),
            context.chronicle.since(asked.run, asked.after),
            counts.requests.figures(history.errors(links)),
            topics,
            left_out,
            counts.stalls.figures,
            {
                "fetch": len(context.fetches),
                "produce": len(counts.waiting),
                "start": self._coordinators.waiting,
                **parked(links),
            },
            {**history.counters(links), **counts.integrity},
            tuple(self._coordinators.status(GROUPS)),
            running(links, RUNNING_MAX),
        )
