"""Settings that are accepted but have no effect: a line in the log says so, once for each."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from actors.settings import SETTINGS, TOPIC_SETTINGS
from actors.wire.config_resources import ConfigResourceType

log = logging.getLogger(__name__)

_EFFECTIVE: dict[int, Container[str]] = {
    ConfigResourceType.TOPIC: TOPIC_SETTINGS,
    ConfigResourceType.BROKER: SETTINGS,
}
"""The settings that have an effect, by type of resource."""


class IdleSettings:
    """Remembers which settings the log has named."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def note(self, resource_type: int, names: Iterable[str]) -> None:
        """These settings were changed: log which of them have no effect."""
        idle = {name for name in names if name not in _EFFECTIVE[resource_type]} - self._told
        if idle:
            self._told |= idle
            log.warning("accepted, but without effect here: %s", ", ".join(sorted(idle)))
