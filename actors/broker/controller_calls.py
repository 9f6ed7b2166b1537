"""The requests of the controller to a broker: for its shards, a group, what the Monitor shows, and a handover."""

from __future__ import annotations

from actors.broker.contact import Contact
from actors.broker.coordinators.host import Coordinators
from actors.broker.leaving import Leaving
from actors.broker.observing import Observing
from actors.broker.replication import ReplicaManager
from actors.coordinator_kinds.groups import GROUPS
from actors.links.observations import LookAtBroker
from actors.links.operations import (
    Done,
    GroupSeen,
    HandOver,
    LearnSecrets,
    ListShards,
    LookAtGroup,
    Operation,
    Result,
    Shards,
)
from actors.links.reading import ReadHeads, ReadLog, ReadPartitions
from actors.links.secret import Marks

_LOOK_SECONDS = 2.0  # within which a shard has to say what it knows of a group


class ControllerCalls:
    """Carries out the controller's calls."""

    def __init__(
        self,
        contact: Contact,
        replicas: ReplicaManager,
        coordinators: Coordinators,
        observing: Observing,
        leaving: Leaving,
    ) -> None:
        self._contact = contact
        self._replicas = replicas
        self._coordinators = coordinators
        self._observing = observing
        self._leaving = leaving

    async def carry_out(self, operation: Operation[Result]) -> Result:
        """Carry out what the controller asks. Raises OSError, TimeoutError; TypeError for what only it can do."""
        match operation:
            case HandOver():
                await self._leaving.hand_over()
                return Done()
            case LearnSecrets(marks):
                await self._learn(marks)
                return Done()
            case ListShards():
                return Shards(tuple(self._coordinators.status(GROUPS)), self._replicas.refills())
            case LookAtGroup(group_id):
                return GroupSeen.of(await self._coordinators[GROUPS].group_status(group_id, _LOOK_SECONDS))
            case LookAtBroker():
                return self._observing.look(operation)
            case ReadPartitions():
                return self._observing.reads.partitions(operation)
            case ReadLog():
                return await self._observing.reads.log(operation)
            case ReadHeads():
                return await self._observing.reads.heads(operation)
            case _:
                raise TypeError(f"{type(operation).__name__} is nothing that a broker does")

    async def _learn(self, marks: Marks) -> None:
        await self._contact.learn_secrets()
        if self._contact.secrets.marks != marks:
            raise ConnectionError("there is none with that mark")
        self._replicas.close_unauthenticated()
