"""Meets topics that were deleted and created again: a consumer's positions mean nothing in the new one.

A position belongs to the topic that had the name when it was found. The id in the metadata tells whether it is still
that topic. From version 13 on fetches name topics by id, so that no record of the new topic is ever taken for one of
the old; older brokers know names alone, and then only the metadata tells. A poll meets it in the user's thread: with an
error where there is no reset policy, else by that policy. A warning is logged in either case.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from actors.client.consumer.positions import PartitionState, Positions
from actors.client.errors import TopicRecreatedError
from actors.client.net.changes import Changes
from actors.client.net.metadata import ClusterMetadata
from actors.client.records import TopicPartition

log = logging.getLogger(__name__)


def is_of_another(state: PartitionState, cluster: ClusterMetadata) -> bool:
    """True if the position belongs to a topic of the same name that was deleted."""
    present = cluster.topic_id(state.tp.topic)
    return bool(state.topic_id and present) and state.topic_id != present


class Recreations:
    """Meets topics that were created again. `reset_to` is where to begin in them; None: that is an error.

    `due` says whether there may be some. `on_recreated` hears of their partitions, once these have no position in the
    old topic any more.
    """

    def __init__(
        self,
        positions: Positions,
        cluster: ClusterMetadata,
        changes: Changes,
        reset_to: int | None,
        due: Callable[[], bool],
        on_recreated: Callable[[list[TopicPartition]], None],
    ) -> None:
        self._positions = positions
        self._cluster = cluster
        self._changes = changes
        self._reset_to = reset_to
        self._due = due
        self._on_recreated = on_recreated

    def note(self) -> None:
        """There is new metadata: warn of topics that were created again since this consumer has read them.

        Their partitions may have been given up meanwhile, as they are while there is no such topic.
        """
        read = self._positions.topic_ids
        present = {topic: self._cluster.topic_id(topic) for topic in read}
        again = {topic: topic_id for topic, topic_id in present.items() if topic_id and topic_id != read[topic]}
        if again:
            log.warning("deleted and created again: %s; what was not read before is lost", ", ".join(sorted(again)))
            read.update(again)

    def meet(self) -> None:
        """Begin anew in topics that were created again. Raises TopicRecreatedError if nothing says where."""
        if not self._due():
            return
        with self._changes.lock:
            found = [state for state in self._positions.states.values() if is_of_another(state, self._cluster)]
            for state in found:
                self._part(state)
        if not found:
            return
        if self._reset_to is None:
            raise TopicRecreatedError(topics={state.tp.topic for state in found})
        self._on_recreated([state.tp for state in found])

    def _part(self, state: PartitionState) -> None:
        if self._reset_to is None:
            state.is_recreation_raised = True
        else:
            state.reset(self._reset_to)
