"""Proposals of in-sync sets to the controller (KIP-497); those of one turn of the loop go in one call."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from actors.broker.context import BrokerContext
from actors.broker.replication.waiting import Key
from actors.links.operations import AlteredPartitions, AlterPartitions, ProposedIsr
from actors.log.replication import LeaderReplica, Proposal
from actors.runtime.logs import at
from actors.wire.errors import ErrorCode

log = logging.getLogger(__name__)

LOST = "the connection to the controller was lost"
"""The error of a call whose outcome is unknown."""

_Proposed = tuple[Key, LeaderReplica, ProposedIsr]


class Proposals:
    """Proposes in-sync sets for the partitions in `leaders`, and handles the controller's answers.

    `committed` is called if a high watermark moves because of an answer.
    """

    def __init__(
        self,
        context: BrokerContext,
        leaders: Mapping[Key, LeaderReplica],
        broker_epoch: Callable[[], int],
        committed: Callable[[Key, LeaderReplica], None],
    ) -> None:
        self._context = context
        self._leaders = leaders
        self._broker_epoch = broker_epoch
        self._committed = committed
        self._lag_ms = context.config.integer("replica.lag.time.max.ms")
        self._heard_ms: Callable[[int], int] = lambda broker: 0
        self._considered: dict[Key, None] = {}

    def consider(self, key: Key) -> None:
        """A follower outside the in-sync set has moved: propose it if it has caught up."""
        if not self._considered:
            self._context.loop.call_soon(self._send_considered)
        self._considered[key] = None

    def _send_considered(self) -> None:
        keys, self._considered = self._considered, {}
        self._send({key: self._leaders[key] for key in keys if key in self._leaders})

    def send(self, heard_ms: Callable[[int], int]) -> None:
        """Make all proposals that are due. `heard_ms(broker)` is when a broker last gave a sign of life."""
        self._heard_ms = heard_ms
        self._send(self._leaders)

    def _send(self, leaders: Mapping[Key, LeaderReplica]) -> None:
        if not self._context.controller.connected:
            return
        now_ms, epoch = int(self._context.loop.time() * 1000), self._broker_epoch()
        proposed: list[_Proposed] = []
        for key, leader in leaders.items():
            topic = self._context.metadata.topics.get(key[0])
            proposal = leader.propose(now_ms, self._lag_ms, epoch, self._heard_ms) if topic is not None else None
            if topic is not None and proposal is not None:
                log.info(
                    "%s-%d: proposed in-sync set: %s", *key, [broker for broker, _ in proposal.isr], extra=at(*key)
                )
                proposed.append((key, leader, _asked(topic.id, key[1], proposal)))
        if proposed:
            self._call(proposed, epoch)

    def _call(self, proposed: list[_Proposed], epoch: int) -> None:
        def done(altered: AlteredPartitions | None, error: str | None) -> None:
            for number, (key, leader, asked) in enumerate(proposed):
                if error == LOST:
                    leader.outcome_unknown(asked.partition_epoch)
                elif altered is None or altered.partitions[number].error_code:
                    why = error or ErrorCode(altered.partitions[number].error_code if altered else -1).name
                    log.info("%s-%d: the in-sync set is not recorded: %s", *key, why, extra=at(*key))
                    if leader.refused(asked.partition_epoch) and self._leaders.get(key) is leader:
                        self._committed(key, leader)

        asked = tuple(each for _, _, each in proposed)
        self._context.controller.call(AlterPartitions(self._context.broker_id, epoch, asked), done)


def _asked(topic_id: bytes, index: int, proposal: Proposal) -> ProposedIsr:
    return ProposedIsr(topic_id, index, proposal.leader_epoch, proposal.partition_epoch, tuple(proposal.isr))
