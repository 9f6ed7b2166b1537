"""The protection of a cluster's data from those who connect. A later start does not give it up unnoticed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from actors.controller.listeners import ListenerPlan
from actors.controller.securing import PROPERTIES
from actors.log.files import REAL_WRITER
from actors.runtime.data_folder import place_of
from actors.runtime.ray_runtime import ClusterError
from actors.settings import BrokerConfig

_FILE: Final = Path("controller", "protection.json")


@dataclass(frozen=True, slots=True)
class Protection:
    """The protection of every listener, and whether there are ACLs."""

    tls: bool = False
    logins: bool = False
    acls: bool = False

    @classmethod
    def of(cls, listeners: Iterable[ListenerPlan], config: BrokerConfig) -> Protection:
        """That of a cluster with these listeners and settings."""
        plans = list(listeners)
        return cls(
            tls=all(listener.protocol.tls for listener in plans),
            logins=all(listener.asks for listener in plans),
            acls=bool(config["authorizer.class.name"]),
        )

    def without(self, other: Protection) -> str:
        """In words, what this has and the other has not; empty if there is nothing."""
        words = (("TLS", self.tls, other.tls), ("logins", self.logins, other.logins), ("ACLs", self.acls, other.acls))
        *first, last = [word for word, mine, theirs in words if mine and not theirs] or [""]
        return f"{', '.join(first)} and {last}" if first else last


def keep(folder: Path, protection: Protection) -> None:
    """Note what a cluster has that serves by now. Raises OSError."""
    REAL_WRITER.write_atomically(folder / _FILE, json.dumps(asdict(protection)).encode())


def kept(folder: Path) -> Protection:
    """The protection with which a data directory was served last. Before that was noted, --secure left a file."""
    try:
        return Protection(**json.loads((folder / _FILE).read_bytes()))
    except FileNotFoundError:
        was_secured = (place_of(folder) / PROPERTIES).exists()
    return Protection(was_secured, was_secured, was_secured)


def refuse_less(folder: Path, now: Protection, *, insecure: bool) -> None:
    """Raise ClusterError if a start gives up protection that the data has had; warn of it if that is wanted."""
    lost = kept(folder).without(now)
    if not lost:
        return
    if not insecure:
        raise ClusterError(
            f"data directory {folder} has been served with {lost}, which this start leaves out: start it with --secure "
            "(from Python: secure=True) or the settings it had, or open it with --insecure (insecure=True)"
        )
    warnings.warn(f"data directory {folder} has been served with {lost}, and now is not", stacklevel=3)
