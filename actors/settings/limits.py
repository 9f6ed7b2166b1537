"""The broker settings about how many clients may be connected, how fast they come, and the windows of quotas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from actors.settings.kinds import MAX_INT, Setting, SettingType

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


LIMITS: Final = (
    Setting(
        name="max.connections",
        type=SettingType.INT,
        default=MAX_INT,
        low=0,
        doc="Most client connections of one broker, or of a listener. Clients of the same machine may have 16 more, so "
        "that somebody can look into it.",
        dynamic=True,
        per_listener=True,
    ),
    Setting(
        name="max.connections.per.ip",
        type=SettingType.INT,
        default=MAX_INT,
        low=0,
        doc="Most client connections from one address. 0 only together with max.connections.per.ip.overrides.",
        dynamic=True,
    ),
    Setting(
        name="max.connections.per.ip.overrides",
        type=SettingType.STRING,
        default="",
        doc="Other limits for some addresses, as HOST:COUNT,HOST:COUNT. Names are looked up when the broker starts and "
        "when the setting changes.",
        dynamic=True,
        check=_check_overrides,
    ),
    Setting(
        name="max.connection.creation.rate",
        type=SettingType.INT,
        default=NO_RATE,
        low=0,
        doc="Most new client connections a second of one broker, or of a listener. Of those beyond it nothing is read "
        "until it is their turn, but for no longer than the window of quotas.",
        dynamic=True,
        per_listener=True,
    ),
    Setting(
        name="quota.window.num",
        type=SettingType.INT,
        default=11,
        low=1,
        doc="Samples in the window of quotas for bytes; 1 counts as 2.",
    ),
    Setting(
        name="quota.window.size.seconds",
        type=SettingType.INT,
        default=1,
        low=1,
        doc="Length of a sample of quotas for bytes.",
    ),
    Setting(
        name="controller.quota.window.num",
        type=SettingType.INT,
        default=11,
        low=1,
        doc="Samples in the window of `controller_mutation_rate`, all of which may be used at once.",
    ),
    Setting(
        name="controller.quota.window.size.seconds",
        type=SettingType.INT,
        default=1,
        low=1,
        doc="Length of a sample of `controller_mutation_rate`.",
    ),
)
