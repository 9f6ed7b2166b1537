"""Settings that are accepted but have no effect: a line in the log says so, once for each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from actors.settings import TOPIC_SETTINGS, WITHOUT_EFFECT, group_setting, without_effect
from actors.wire.config_resources import ConfigResourceType

log = logging.getLogger(__name__)

_IDLE: dict[int, Callable[[str], bool]] = {
    ConfigResourceType.TOPIC: lambda name: name not in TOPIC_SETTINGS,
    ConfigResourceType.BROKER: without_effect,
    ConfigResourceType.GROUP: lambda name: group_setting(name).doc == WITHOUT_EFFECT,
}
"""By type of resource, a predicate that is true of settings without effect."""


class IdleSettings:
    """Remembers which settings the log has named."""

    def __init__(self) -> None:
        self._warned: set[str] = set()

    def note(self, resource_type: int, names: Iterable[str]) -> None:
        """These settings were changed: log which of them have no effect."""
        idle = set(filter(_IDLE[resource_type], names)) - self._warned
        if idle:
            self._warned |= idle
            log.warning("accepted, but without effect here: %s", ", ".join(sorted(idle)))
