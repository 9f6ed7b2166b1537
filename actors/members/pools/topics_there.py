"""A check that a pool's brokers answer and its topics exist, before a member is started.

Otherwise a wrong port, a missing login or a typo in a topic would show as members that never get a record.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Final

from actors.client import Admin
from actors.client.admin.types import NewTopic
from actors.client.config import security_settings
from actors.client.errors import (
    ConfigurationError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.plan import PoolError
from actors.runtime.logs import about

log = logging.getLogger(__name__)

_ASK_MS: Final = 4_000
_CREATE_MS: Final = 30_000
_PAUSES: Final = (0.1, 0.2, 0.4, 0.4)  # a topic that was just created may not be known to each broker yet


def check_topics(
    spec: MemberSpec, *, create: bool, admin: Callable[..., Admin] = Admin, pauses: Sequence[float] = _PAUSES
) -> None:
    """Raise PoolError if no broker answers, or a topic of the pool does not exist; with `create` it is created."""
    named = dict.fromkeys([*spec.topics, *filter(None, [spec.dead_letter_topic])])
    settings = security_settings(spec.options)
    try:
        made = admin(bootstrap_servers=spec.bootstrap_servers, client_id="coterie-pool", **settings)
    except ConfigurationError as error:  # a password's file, say, that the members' machines alone have
        text, of_group = "group %s: its topics cannot be looked for from here: %s", about(group=spec.group_id)
        log.warning(text, spec.group_id, error, extra=of_group)
        return
    try:
        with made as asked:
            missing = _missing(asked, list(named))
            if missing and create:
                _create(asked, missing)
                return
            for pause in pauses if missing else ():
                threading.Event().wait(pause)
                missing = _missing(asked, missing)
                if not missing:
                    break
    except KafkaError as error:
        raise PoolError(f"the pool of group {spec.group_id!r} cannot begin: {error}") from None
    if missing:
        raise PoolError(
            f"there is no topic {', '.join(map(repr, missing))} at {spec.bootstrap_servers}: mend its name, create it, "
            "or have the pool create it by create_topic=True"
        )


def _missing(admin: Admin, topics: Collection[str]) -> list[str]:
    return [topic for topic in topics if not _exists(admin, topic)]


def _exists(admin: Admin, topic: str) -> bool:
    try:
        admin.describe_topics([topic], timeout_ms=_ASK_MS)
    except UnknownTopicOrPartitionError:
        return False
    return True


def _create(admin: Admin, topics: Collection[str]) -> None:
    """Create topics as the brokers' settings say. Another pool may do the same just now."""
    outcomes = admin.create_topics([NewTopic(topic) for topic in topics], timeout_ms=_CREATE_MS, raise_errors=False)
    for error in outcomes.values():
        if error is not None and not isinstance(error, TopicAlreadyExistsError):
            raise error
