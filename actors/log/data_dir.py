"""A broker's data directory: its lock, its identity, and the logs of its partitions in one folder each.

    DATA_DIR/.lock               held by the owning process; its pid
    DATA_DIR/meta.properties     which cluster and broker the directory belongs to, and its own id (directory.id)
    DATA_DIR/.clean_shutdown     there only if the last owner closed everything: how it closed each log
    DATA_DIR/.boot               during which boot of the machine the last owner ran
    DATA_DIR/TOPIC-PARTITION/    a log, and partition.metadata with the topic's id

The controller, not the directory, knows which partitions there should be, and who leads them. So is whether this is the
broker's directory still: one whose broker was replaced is never used again.
"""

import base64
import logging
import os
import re
import shutil
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from actors.log.clean_stop import CleanMark, take_mark, write_mark
from actors.log.config import LogConfig
from actors.log.damage import Damage
from actors.log.errors import DataDirError
from actors.log.files import FileWriter
from actors.log.folder_lock import LOCK_NAME, FolderInUseError, FolderLock
from actors.log.machine import Machine
from actors.log.partition_log import PartitionLog
from actors.log.unusable import why_unusable
from actors.records.errors import LogError

logger = logging.getLogger(__name__)

META_NAME: Final = "meta.properties"
BOOT_NAME: Final = ".boot"
PARTITION_META_NAME: Final = "partition.metadata"
DELETE_SUFFIX: Final = ".delete"
STRAY_SUFFIX: Final = ".stray"
REPLACED_SUFFIX: Final = ".replaced"
META_VERSION: Final = 1
DIRECTORY_ID: Final = "directory.id"
PARTITION_META_VERSION: Final = 0
NO_TOPIC_ID: Final = bytes(16)
_NO_BOOT: Final = b"records were lost"

_FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]{1,249})-(?P<partition>\d{1,10})")

TopicPartition = tuple[str, int]


class DataDir:
    """An open, locked data directory. `logs` holds what has been loaded or created."""

    def __init__(
        self, path: Path, directory_id: str, lock: FolderLock, mark: CleanMark | None, machine: Machine
    ) -> None:
        self.path = path
        self.directory_id = directory_id
        """The id that distinguishes it from every other directory that the broker has had (KIP-858)."""
        self.was_clean = mark is not None
        """True if the last owner closed everything; if not, unflushed bytes have to be checked."""
        self._closed = mark.logs if mark is not None else {}
        """The logs that have yet to be opened, as they were closed; None if an earlier release closed them."""
        self.intact = self.was_clean or _same_boot(path, machine)
        """True if all that was written is here. If not, replicas come back outside the in-sync sets.

        Once its logs are loaded, it says so of them, too: no log ends before what is known to have been on disk.
        """
        self._power_lost = not self.intact
        self._loss_is_told = False
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.topic_ids: dict[TopicPartition, bytes] = {}
        self.not_opened: set[TopicPartition] = set()
        """The partitions whose log could not be opened when that was last tried."""
        self.shortened: set[TopicPartition] = set()
        """The partitions whose log was opened after the others, and had lost its end.

        That is too late for `intact`: the owner has to tell it of each, and takes it out then.
        """
        self.damaged: deque[tuple[TopicPartition, Damage]] = deque()
        """Damage that reads have found, in any thread; the owner takes it out and reports it."""
        self._lock = lock
        self._machine = machine
        self._writer = self.writer = machine.writer

    def note_boot(self) -> None:
        """Note the machine's present boot. To be called when the controller knows what may have been lost before it."""
        self._loss_is_told = True
        if self._power_lost and self.not_opened:
            return  # the next opening finds out what these have lost
        try:
            self._writer.write_atomically(self.path / BOOT_NAME, self._machine.boot())
        except OSError as error:
            logger.warning("%s: cannot note the machine's boot: %s", self.path, error)

    @classmethod
    def open(
        cls,
        path: Path | str,
        cluster_id: str,
        broker_id: int,
        machine: Machine,
        lock_timeout_s: float = 10.0,
        *,
        directory_id: str | None = None,
        anew: bool = False,
    ) -> "DataDir":
        """Lock `path`, making it if it is missing, and check that it belongs to this cluster and broker.

        `directory_id` is the id that it has to have, if that is known. `anew`: a directory with that id is made, and
        one with another id is set aside, under a name that ends in `.replaced`. Waits up to `lock_timeout_s` for an
        owner that is ending. Raises DataDirError, whose text says what to do.
        """
        path = Path(path)
        expected = {"version": str(META_VERSION), "cluster.id": cluster_id, "node.id": str(broker_id)}
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = _locked(path, lock_timeout_s)
            try:
                if anew and (path / META_NAME).exists() and _own_id(path, expected) != directory_id:
                    lock = _set_aside(path, lock, machine)
                found = _check_identity(path, expected, directory_id, machine)
                return cls(path, found, lock, take_mark(path, machine.writer), machine)
            except BaseException:  # of a bug, too: the lock would stay with this process
                lock.release()
                raise
        except OSError as error:
            raise DataDirError(why_unusable(path, error)) from error

    def _note_loss(self, log: PartitionLog) -> None:
        """A log has lost records. The mark has a successor tell it if we cannot; then the log may forget it."""
        was_intact, self.intact = self.intact, False
        try:
            if was_intact:
                self._writer.write_atomically(self.path / BOOT_NAME, _NO_BOOT)
            log.write_checkpoint(durable=True)
        except (OSError, LogError) as error:
            logger.warning("%s: cannot note that records are lost: %s", self.path, error)

    def _write_down(self, log: PartitionLog) -> None:
        """The mark of the clean stop, which is gone now, may have known more of a log than its folder does."""
        try:
            log.write_checkpoint()
        except LogError as error:
            logger.warning("%s: %s; it is written with the next flush", self.path, error)

    # -- logs

    def load(self, config_of: Callable[[str], LogConfig], now_ms: int) -> list[str]:
        """Open the logs of all partition folders; after an unclean stop this checks their tails.

        Finishes interrupted deletions. Returns the folders that could not be opened, or that are not logs.
        """
        odd = []
        with os.scandir(self.path) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir())
        if self._closed is not None:
            self._closed = {name: self._closed[name] for name in names if name in self._closed}
        for name in names:
            folder = self.path / name
            if name.endswith(DELETE_SUFFIX):
                remove_folder(folder)
                continue
            found = _FOLDER.fullmatch(name)
            if found is None or name.endswith(STRAY_SUFFIX):
                odd.append(name)
                continue
            topic, partition = found["topic"], int(found["partition"])
            try:
                log = self._open(folder, (topic, partition), config_of(topic), now_ms)
                if log.is_short:
                    self._note_loss(log)
                self._write_down(log)
            except LogError as error:
                logger.error("%s", error)
                odd.append(name)
        return odd

    def create(self, topic: str, partition: int, topic_id: bytes, config: LogConfig, now_ms: int) -> PartitionLog:
        """The log of a partition, made if it does not exist. A folder of another topic id is set aside.

        Raises LogError (KAFKA_STORAGE_ERROR).
        """
        key = (topic, partition)
        folder = self.folder(topic, partition)
        log = self.logs.get(key)
        if log is None:
            log = self._open(folder, key, config, now_ms)
            if log.is_short:
                self._note_loss(log)
                self.shortened.add(key)
        elif topic_id in (self.topic_ids[key], NO_TOPIC_ID):
            return log
        if NO_TOPIC_ID not in (topic_id, self.topic_ids[key]) and topic_id != self.topic_ids[key]:
            self.set_aside(topic, partition)
            log = self._open(folder, key, config, now_ms)
        if self.topic_ids[key] == NO_TOPIC_ID and topic_id != NO_TOPIC_ID:
            _write_partition_meta(folder, topic_id, self._writer)
            self.topic_ids[key] = topic_id
        self._writer.fsync_directory(self.path)
        return log

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """The log of a partition, if it is here."""
        return self.logs.get((topic, partition))

    def delete(self, topic: str, partition: int) -> Path | None:
        """Drop a log. Its folder is renamed at once; the caller removes the returned path with `remove_folder`, later.

        A crash may undo the renaming. Then the folder belongs to an unknown topic, and is dropped again.
        """
        return self._rename_away(topic, partition, DELETE_SUFFIX)

    def set_aside(self, topic: str, partition: int) -> Path | None:
        """Drop a log that should not be here, but keep its files, in a folder whose name ends in .stray."""
        renamed = self._rename_away(topic, partition, STRAY_SUFFIX)
        self._writer.fsync_directory(self.path)
        return renamed

    def folder(self, topic: str, partition: int) -> Path:
        """The folder of a partition's log."""
        return self.path / f"{topic}-{partition}"

    def _open(self, folder: Path, key: TopicPartition, config: LogConfig, now_ms: int) -> PartitionLog:
        self.not_opened.add(key)
        closed = self._closed.get(folder.name) if self._closed is not None else None
        log = PartitionLog.open(
            folder,
            config,
            self._writer,
            clean_shutdown=self.was_clean and (self._closed is None or closed is not None),
            power_lost=self._power_lost,
            now_ms=now_ms,
            closed=closed,
            damaged=lambda damage: self.damaged.append((key, damage)),
        )
        self.not_opened.remove(key)
        if closed is not None and self._closed is not None:
            del self._closed[folder.name]
        self.logs[key] = log
        self.topic_ids[key] = _read_partition_meta(folder)
        return log

    def _rename_away(self, topic: str, partition: int, suffix: str) -> Path | None:
        log = self.logs.pop((topic, partition), None)
        self.topic_ids.pop((topic, partition), None)
        self.shortened.discard((topic, partition))
        if log is None:
            return None
        log.abandon()
        # A topic's name may fill what a file system allows for one: keep only its beginning.
        name = f"{log.directory.name[:200]}.{self._machine.new_name()}{suffix}"
        return log.directory.rename(self.path / name)

    # -- the end

    def close(self) -> None:
        """Close all logs, and mark the stop as clean if every one could be closed. Releases the lock.

        Errors of the disk are logged. Without the mark, the next opening checks all logs as after a crash. Nor is there
        a mark if a log that had to be checked could not be opened, or the controller does not know what was lost.
        """
        clean = (self.was_clean or not self.not_opened) and (self.intact or self._loss_is_told)
        closed = dict(self._closed or {})
        for log in self.logs.values():
            try:
                clean = clean and log.failure is None
                how = log.close()
                if how is not None:
                    closed[log.directory.name] = how
            except LogError as error:
                clean = False
                logger.error("%s", error)
        self.logs.clear()
        self.topic_ids.clear()
        try:
            if clean:
                write_mark(self.path, closed, self._writer)
        except OSError as error:
            logger.error("the stop of %s cannot be marked as clean: %s", self.path, error)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of everything as it is, as a crash would."""
        for log in self.logs.values():
            log.abandon()
        self.logs.clear()
        self._lock.release()


def remove_folder(path: Path) -> None:
    """Remove a folder that `DataDir.delete` renamed. May run in another thread, and more than once."""
    shutil.rmtree(path, ignore_errors=True)


def remove_folders(paths: Iterable[Path]) -> None:
    """`remove_folder` of each."""
    for path in paths:
        remove_folder(path)


def _locked(path: Path, timeout_s: float) -> FolderLock:
    try:
        return FolderLock(path, timeout_s)
    except FolderInUseError as error:
        raise DataDirError(
            f"data directory {path} is in use by another process (pid {error.owner}):"
            f" {LOCK_NAME} stayed locked for {timeout_s:g} s. Stop that process, or use another directory."
        ) from None


def _set_aside(path: Path, lock: FolderLock, machine: Machine) -> FolderLock:
    """Keep a directory that is used no longer under another name, and make an empty one: its lock."""
    aside = path.with_name(f"{path.name}.{machine.new_name()}{REPLACED_SUFFIX}")
    path.rename(aside)
    logger.warning("%s was replaced: what it held is in %s, and is used no longer", path, aside)
    path.mkdir(mode=0o700)
    machine.writer.fsync_directory(path.parent)
    fresh = _locked(path, 0.0)
    lock.release()
    return fresh


def _own_id(path: Path, expected: Mapping[str, str]) -> str | None:
    """The id of a directory of this broker; None if it has none. Another cluster's or broker's is left as it is."""
    found = read_properties(path / META_NAME)
    _compare(path, found, expected)
    return found.get(DIRECTORY_ID)


def _check_identity(path: Path, expected: Mapping[str, str], directory_id: str | None, machine: Machine) -> str:
    """The id of the directory, which gets one if it has none."""
    meta = path / META_NAME
    found: dict[str, str] = {}
    if meta.exists():
        _compare(path, found := read_properties(meta), expected)
        own = found.get(DIRECTORY_ID)
        if directory_id not in (None, own):
            raise DataDirError(was_replaced(path, expected["node.id"], own or "missing", directory_id))
        if own is not None:
            return own  # else an earlier release has made it
    else:
        leftovers = (LOCK_NAME, BOOT_NAME, f"{META_NAME}.tmp")
        others = sorted(each.name for each in path.iterdir() if each.name not in leftovers)
        if others:
            raise DataDirError(
                f"data directory {path} is not empty (it holds {others[0]!r}) but has no {META_NAME}:"
                " it does not belong to a cluster. Use an empty directory."
            )
    made = directory_id or machine.new_name()
    lines = "".join(f"{key}={value}\n" for key, value in {**expected, **found, DIRECTORY_ID: made}.items())
    machine.writer.write_atomically(meta, lines.encode())
    return made


def was_replaced(path: Path, broker_id: int | str, own: str, current: str | None) -> str:
    """The reason why a directory is no longer used."""
    return (
        f"data directory {path} has {DIRECTORY_ID}={own}, but broker {broker_id} was replaced and has"
        f" {DIRECTORY_ID}={current} now: this directory is used no longer. Keep it as a copy, or remove it."
    )


def _compare(path: Path, found: Mapping[str, str], expected: Mapping[str, str]) -> None:
    version = found.get("version", "missing")
    if not version.isdigit() or int(version) > META_VERSION:
        raise DataDirError(
            f"data directory {path}: {META_NAME} has version {version}, but this release reads versions up to"
            f" {META_VERSION}. Start the release that wrote it, or use another directory."
        )
    # Kafka wrote broker.id before node.id.
    names = {"cluster.id": found.get("cluster.id"), "node.id": found.get("node.id", found.get("broker.id"))}
    for key, value in names.items():
        if value != expected[key]:
            raise DataDirError(
                f"data directory {path} belongs to another cluster or broker: {META_NAME} has"
                f" {key}={value or 'missing'}, expected {key}={expected[key]}. Use the directory of this broker,"
                " or an empty one."
            )


def read_properties(path: Path) -> dict[str, str]:
    """The key=value lines of a Java properties file; comments and blank lines are skipped."""
    lines = (line.strip() for line in path.read_text(errors="replace").splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith(("#", "!")))
    return {key.strip(): value.strip() for key, _, value in pairs}


def _same_boot(path: Path, machine: Machine) -> bool:
    """True if the last owner ran since the machine's last boot: its death then lost nothing it had written."""
    try:
        mark = path / BOOT_NAME
        return not mark.exists() or mark.read_bytes() == machine.boot()
    except OSError:
        return False


def _write_partition_meta(folder: Path, topic_id: bytes, writer: FileWriter) -> None:
    text = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    content = f"version: {PARTITION_META_VERSION}\ntopic_id: {text}\n"
    writer.write_atomically(folder / PARTITION_META_NAME, content.encode())


def _read_partition_meta(folder: Path) -> bytes:
    try:
        lines = (folder / PARTITION_META_NAME).read_text().splitlines()
        fields = dict(line.split(": ", 1) for line in lines if line)
        topic_id = base64.urlsafe_b64decode(fields["topic_id"] + "==")
        return topic_id if len(topic_id) == len(NO_TOPIC_ID) else NO_TOPIC_ID
    except (OSError, ValueError, KeyError):
        return NO_TOPIC_ID
