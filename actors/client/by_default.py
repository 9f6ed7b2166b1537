"""The group protocol of those consumers that Coterie makes itself: pools' members, streams, Ray Data, the command.

A `Consumer` of a program is classic unless it says something else, as Kafka's is. These speak the consumer protocol
(KIP-848) where both sides can (`group/auto.py`), and the classic one where a setting needs it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from actors.client.config import OF_CLASSIC_GROUPS

log = logging.getLogger(__name__)

HEARTBEAT_MAX_MS: Final = 1_000
_NOTHING: Final[Mapping[str, Any]] = {}


def kept_classic(options: Mapping[str, Any]) -> str:
    """The reason why consumers with these options speak the classic protocol, in words; "" if there is none."""
    names = [] if _protocol(options) else [name for name in OF_CLASSIC_GROUPS if options.get(name) is not None]
    if not names:
        return ""
    verb = "is" if len(names) == 1 else "are"
    return f"its members speak the classic group protocol, since {', '.join(names)} {verb} set"


def by_default(options: Mapping[str, Any], classic: Mapping[str, Any] = _NOTHING) -> dict[str, Any]:
    """A user's options with the group protocol in them; what he has chosen stays.

    `classic` are settings that the consumer shall have in a classic group unless the user gives others. A static member
    takes its place from its predecessor in groups of both protocols, and none waits for the five seconds between two
    heartbeats that are Kafka's default.
    """
    common = {"group_instance_takeover": True, "group_heartbeat_max_ms": HEARTBEAT_MAX_MS}
    match _protocol(options):
        case "consumer":
            return {**common, **options, "group_protocol": "consumer"}
        case "":
            protocol = "classic" if kept_classic(options) else "auto"
            given = {name: value for name, value in options.items() if value is not None or name != "group_protocol"}
            return {**classic, **common, "group_protocol": protocol, **given}
        case protocol:
            return {**classic, **common, **options, "group_protocol": protocol}


def _protocol(options: Mapping[str, Any]) -> str:
    """The protocol that the user has chosen; "" if he has not."""
    return str(options.get("group_protocol") or "").lower()


def tell_kept_classic(options: Mapping[str, Any], group_id: str) -> None:
    """Say so, if an option has consumers with these options speak the classic protocol."""
    if why := kept_classic(options):
        log.warning("group %s: %s", group_id, why)
