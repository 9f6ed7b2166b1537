"""Tells shards of settings that have changed while they serve, of those that their kind goes by."""

from __future__ import annotations

import logging
from typing import Final

from actors.broker.context import BrokerContext
from actors.broker.coordinators.partitions import Partitions
from actors.coordinator_kinds.kind import CoordinatorKind
from actors.links.relay import ForAll, Kind, Payload

log = logging.getLogger(__name__)

_SINCE: Final = 1
"""The version of the relay in which shards can be told."""


class SettingsNews:
    """The settings of one kind. A shard has those of its start, and is told of changes."""

    def __init__(self, context: BrokerContext, kind: CoordinatorKind, partitions: Partitions) -> None:
        self._context = context
        self._make = kind.settings
        self._remarks = kind.remarks
        self._partitions = partitions
        self._sent: Payload | None = None

    def tell(self) -> None:
        """The image may have changed."""
        if self._make is None:
            return
        made = self._make(self._context.config, self._context.metadata)
        if made == self._sent:
            return
        for remark in self._remarks(made, self._sent):
            log.warning("%s", remark)
        self._sent, news = made, ForAll(made)
        for link in self._partitions.links.values():
            if (link.protocol.version or 0) >= _SINCE:
                link.protocol.say(Kind.SETTINGS, news)
