"""The broker settings about how many clients may be connected, how fast they come, and the windows of quotas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from actors.settings.kinds import MAX_INT, Setting, SettingType

MAX_CONNECTIONS: Final = "max.connections"
MAX_PER_IP: Final = "max.connections.per.ip"
PER_IP_OVERRIDES: Final = "max.connections.per.ip.overrides"
CREATION_RATE: Final = "max.connection.creation.rate"
_HOST: Final = re.compile(r"[A-Za-z0-9._-]+|[0-9a-fA-F:.]+|\[[0-9a-fA-F:.]+\]")
NO_RATE: Final = MAX_INT
"""The rate that is none."""


def overrides_of(text: str | None) -> dict[str, int]:
    """The limits in `max.connections.per.ip.overrides`, by host. Raises ValueError."""
    return dict(_overrides(text or ""))


def _overrides(text: str) -> Iterator[tuple[str, int]]:
    for each in filter(None, map(str.strip, text.split(","))):
        host, colon, count = each.rpartition(":")
        if not (_HOST.fullmatch(host.strip()) and colon and count.strip().isascii() and count.strip().isdigit()):
            raise ValueError(f"{each!r} is not HOST:COUNT")
        yield host.strip().strip("[]"), int(count)


def _check_overrides(text: str) -> str | None:
    try:
        overrides_of(text)
    except ValueError as error:
        return str(error)
    return None


def _window(prefix: str, what: str) -> tuple[Setting, Setting]:
    return (
        Setting(
            name=f"{prefix}quota.window.num",
            type=SettingType.INT,
            default=11,
            low=1,
            doc=f"Samples in the window of {what}; 1 counts as 2.",
        ),
        Setting(
            name=f"{prefix}quota.window.size.seconds",
            type=SettingType.INT,
            default=1,
            low=1,
            doc=f"Length of a sample of {what}.",
        ),
    )


LIMITS: Final = (
    Setting(
        name=MAX_CONNECTIONS,
        type=SettingType.INT,
        default=MAX_INT,
        low=0,
        doc="Most client connections of one broker, or of a listener. Clients of the same machine may have 16 more, so "
        "that somebody can look into it.",
        dynamic=True,
        per_listener=True,
    ),
    Setting(
        name=MAX_PER_IP,
        type=SettingType.INT,
        default=MAX_INT,
        low=0,
        doc=f"Most client connections from one address. 0 only together with {PER_IP_OVERRIDES}.",
        dynamic=True,
    ),
    Setting(
        name=PER_IP_OVERRIDES,
        type=SettingType.STRING,
        default="",
        doc="Other limits for some addresses, as HOST:COUNT,HOST:COUNT. Names are looked up when the broker starts and "
        "when the setting changes.",
        dynamic=True,
        check=_check_overrides,
    ),
    Setting(
        name=CREATION_RATE,
        type=SettingType.INT,
        default=NO_RATE,
        low=0,
        doc="Most new client connections a second of one broker, or of a listener. Of those beyond it nothing is read "
        "until it is their turn, but for no longer than the window of quotas.",
        dynamic=True,
        per_listener=True,
    ),
    *_window("", "quotas for bytes"),
    *_window("controller.", "quotas for changes of topics (`controller_mutation_rate`)"),
)
