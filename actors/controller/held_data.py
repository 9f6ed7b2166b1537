"""The data directory of a start: checked, held by the process that runs the cluster, and let go."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from actors.controller import protection
from actors.controller.preparation import prepare_folder
from actors.controller.protection import Protection
from actors.log.folder_lock import FolderInUseError, FolderLock, is_locked
from actors.log.unusable import why_unusable
from actors.runtime.data_folder import check_link, place_of
from actors.runtime.ray_runtime import ClusterError

_LOCK: Final = ".driver"
_ENDING_SECONDS: Final = 10.0
_SURE_SECONDS: Final = 0.5
_LOOK_SECONDS: Final = 0.05


class HeldData:
    """A data directory that this process may use. Raises ClusterError if it may not, or should not.

    `embedded` says that the cluster ends with this process; two of them then cannot have one directory.
    """

    def __init__(
        self, data_dir: Path, secret_file: str | None, present: Protection, *, embedded: bool, insecure: bool
    ) -> None:
        self.folder = folder_of(data_dir)
        self.secret = prepare_folder(self.folder, secret_file)
        self.place = place_of(self.folder)
        """The folder of its private files."""
        self._present = present
        protection.refuse_less(self.folder, present, insecure=insecure)
        self._lock = hold(self.folder) if embedded else None

    def served(self) -> None:
        """The cluster serves: what protects it now is what later starts must not leave out."""
        protection.keep(self.folder, self._present)

    def release(self) -> None:
        """Let the next start have it, which waits for the processes of this one. Releasing twice is harmless."""
        if self._lock is not None:
            self._lock.release()


def folder_of(data_dir: Path) -> Path:
    """The folder itself. Raises ClusterError if another user's link leads to it."""
    try:
        check_link(data_dir)
    except PermissionError as error:
        raise ClusterError(f"data directory {error}") from None
    return data_dir.resolve()


def hold(folder: Path) -> FolderLock:
    """Have a prepared data directory for this process alone. Raises ClusterError if another process's cluster has it.

    That is the case while that process lives and its controller does, too. A cluster that was ended by `coterie down`
    has no controller, and its process is waited for.
    """
    begun = time.monotonic()
    while True:
        try:
            return FolderLock(folder / "controller", 0.0, _LOCK)
        except FolderInUseError as error:
            waited = time.monotonic() - begun
            if waited > _ENDING_SECONDS or (waited > _SURE_SECONDS and is_locked(folder / "controller")):
                raise ClusterError(
                    f"data directory {folder} is in use by the cluster that process {error.owner} runs: stop that "
                    f"cluster (coterie down --data-dir {folder}), or choose another --data-dir"
                ) from None
        except OSError as error:
            raise ClusterError(why_unusable(folder, error)) from None
        time.sleep(_LOOK_SECONDS)
