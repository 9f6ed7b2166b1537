"""Has the controller create topics that clients have asked for, and that did not exist.

As in Kafka nobody waits for it: the client is told that the topic is unknown, and asks again. A topic that was just
deleted is thus gone for whoever looks at once.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from actors.broker.context import Controller
from actors.links.operations import CreatedTopics, CreateTopics, NewTopic
from actors.wire.errors import ErrorCode

log = logging.getLogger(__name__)

_UNDER_WAY_MAX: Final = 10_000
_MADE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


class AutoCreation:
    """The topics whose creation is under way: each is asked for once at a time, and no more than 10,000 at once."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._under_way: set[str] = set()
        self._warned: set[int] = set()

    def begin(self, names: Iterable[str], principal: str) -> None:
        """Have topics created that are not under way yet, on behalf of a client."""
        room = _UNDER_WAY_MAX - len(self._under_way)
        fresh = tuple(name for name in dict.fromkeys(names) if name not in self._under_way)[:room]
        if not fresh:
            return
        self._under_way.update(fresh)

        def done(created: CreatedTopics | None, error: str | None) -> None:
            self._under_way.difference_update(fresh)
            for topic in created.topics if created is not None else ():
                self._note(topic.name, topic.error_code, topic.error_message)

        self._controller.call(CreateTopics(tuple(NewTopic(name) for name in fresh)), done, principal)

    def _note(self, name: str, code: int, text: str | None) -> None:
        """Say why topics cannot be created: once for each reason, for clients ask again and again."""
        if code not in _MADE:
            level = logging.DEBUG if code in self._warned else logging.WARNING
            log.log(level, "topic %s, which a client asked for, is not created: %s", ascii(name), text or code)
            self._warned.add(code)
