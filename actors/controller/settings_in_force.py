"""The settings of a cluster that were changed while it runs.

Ray starts a controller again with the arguments of its first start. Changes since then are in a file beside the
metadata log, until the cluster is started as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from actors.log.files import REAL_WRITER

_FILE: Final = Path("controller", "settings.json")


@dataclass(frozen=True, slots=True)
class Changed:
    """The settings that brokers are started with from now on.

    `transition` holds over `config` until the next change: for what not all brokers can begin at the same time. Until
    `everywhere`, some brokers may run with settings from before; `former` are those by which the controller must go
    until then.
    """

    config: Mapping[str, str]
    transition: Mapping[str, str] = field(default_factory=dict)
    everywhere: bool = False
    former: Mapping[str, str] = field(default_factory=dict)

    @property
    def effective(self) -> dict[str, str]:
        """The settings that processes are told."""
        return {**self.config, **self.transition}

    def taken_everywhere(self) -> Changed:
        """The same once every broker that runs has them."""
        return replace(self, everywhere=True, former={})


def keep(folder: Path, changed: Changed) -> None:
    """Have them on disk, in the data directory of the controller. Raises OSError."""
    told = asdict(changed)
    if not changed.former:
        del told["former"]  # earlier builds do not know this field
    REAL_WRITER.write_atomically(folder / _FILE, json.dumps(told, indent=1).encode())


def kept(folder: Path) -> Changed | None:
    """The settings as changed while the cluster ran; None if none were, or it has been started as a whole since."""
    try:
        found = json.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        return None
    return Changed(**found)


def forgotten(folder: Path, config: Mapping[str, str]) -> list[str]:
    """Notes for who starts a cluster without what was changed while it ran. Raises OSError."""
    found = kept(folder)
    if found is None:
        return []
    names = sorted(name for name in {*found.config, *config} if found.config.get(name) != config.get(name))
    return [f"not as they were changed while the cluster ran: {', '.join(names)}"] if names else []


def drop(folder: Path) -> None:
    """The settings of a start of the whole cluster hold."""
    (folder / _FILE).unlink(missing_ok=True)
