"""The settings of a cluster that were changed while it runs.

Ray starts a controller again with the arguments of its first start. Changes since then are in the metadata, where each
controller of a quorum finds them, until the cluster is started as a whole. Before level SHARED they are in a file
beside the metadata log. Later the file says what a process goes by until its log is open.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Self

from actors.log.files import REAL_WRITER
from placement.metadata import ClusterMetadata, ClusterSettings
from placement.records import SHARED, ClusterSettingsRecord, Record

log = logging.getLogger(__name__)

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

    @property
    def in_metadata(self) -> ClusterSettings:
        """The same as the metadata has it."""
        return ClusterSettings(self.config, self.transition, self.everywhere, self.former)

    @classmethod
    def of(cls, settings: ClusterSettings) -> Self:
        """The inverse of `in_metadata`."""
        return cls(settings.config, settings.transition, settings.everywhere, settings.former)


class KeptSettings:
    """The changed settings of a cluster, for its controller. `folder` is its data directory.

    `decided` gives the metadata as decided, and `commit` returns when records have committed; it raises OSError.
    """

    def __init__(
        self, folder: Path, decided: Callable[[], ClusterMetadata], commit: Callable[[Sequence[Record]], None]
    ) -> None:
        self._folder = folder
        self._decided = decided
        self._commit = commit

    def keep(self, changed: Changed) -> None:
        """Have these from now on, whichever process is the controller. Raises OSError; then nothing has changed."""
        if self._decided().level < SHARED:
            keep(self._folder, changed)
            return
        self._commit([ClusterSettingsRecord(changed.in_metadata)])
        try:
            keep(self._folder, changed)
        except OSError as error:
            log.warning("settings are changed, and %s is not: %s", self._folder / _FILE, error)

    def kept(self) -> Changed | None:
        """The settings as changed; None if they are those of the cluster's start."""
        decided = self._decided()
        if decided.level < SHARED:
            return kept(self._folder)
        return None if decided.settings is None else Changed.of(decided.settings)

    def drop(self) -> None:
        """The settings of a start of the whole cluster hold. Raises OSError."""
        drop(self._folder)
        if self._decided().settings is not None:
            self._commit([ClusterSettingsRecord(None)])


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
