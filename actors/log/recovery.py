"""Opening a log's folder. After an unclean stop its end is checked, and cut at the first bad batch."""

import logging
import os
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from actors.log.checkpoint import Checkpoint, load_checkpoint
from actors.log.clean_stop import Closed
from actors.log.compaction import CLEANED_SUFFIX
from actors.log.config import LogConfig
from actors.log.epochs import FILE_NAME as EPOCHS_FILE
from actors.log.epochs import LeaderEpochs
from actors.log.errors import StorageError
from actors.log.files import FileWriter, remove_files
from actors.log.gaps import Gaps, begin_gaps, load_gaps, save_gaps
from actors.log.producer_state import ProducerStates
from actors.log.segment import DELETED_SUFFIX, INDEX_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, TIME_INDEX_SUFFIX, Segment
from actors.log.swap import MANIFEST, recover
from actors.log.walking import BatchAt
from actors.records.batch import BatchHeader

logger = logging.getLogger(__name__)

_LEFTOVERS: Final = (DELETED_SUFFIX, ".tmp")
_INDEXES: Final = (INDEX_SUFFIX, TIME_INDEX_SUFFIX)


@dataclass(slots=True)
class OpenedLog:
    """The parts of a log, as they were found on disk."""

    segments: list[Segment]
    checkpoint: Checkpoint
    written: Checkpoint
    """The checkpoint that the folder holds."""
    epochs: LeaderEpochs
    producers: ProducerStates
    gaps: Gaps
    log_end_offset: int
    is_short: bool
    """True if it ends before the recovery point: records are gone that were on disk."""


def open_directory(
    directory: Path,
    config: LogConfig,
    writer: FileWriter,
    *,
    clean_shutdown: bool,
    power_lost: bool,
    now_ms: int,
    closed: Closed | None = None,
    create: bool = True,
) -> OpenedLog:
    """Read a log's folder; with `create` it is made if it is missing. Raises StorageError.

    `power_lost`: what was written and not flushed may be gone. `closed`: how it was closed, if the mark of a clean stop
    says so.
    """
    try:
        if create:
            directory.mkdir(parents=True, exist_ok=True)
        return _Opening(directory, config, writer, clean_shutdown, power_lost, now_ms, closed).run()
    except OSError as error:
        raise StorageError(f"cannot open the log in {directory}: {error}") from error


def rebuild_producers(
    directory: Path, segments: list[Segment], log_end_offset: int, now_ms: int, without: Container[Segment] = ()
) -> ProducerStates:
    """The state of producers at the log end, from the newest usable snapshot and the batches after it.

    Snapshots past the end are removed: they describe records that are gone. Segments in `without` need not be read,
    because none of their batches is an idempotent producer's.
    """
    producers = ProducerStates()
    start = segments[0].base_offset
    for offset, path in sorted(snapshots(directory), reverse=True):
        if offset <= log_end_offset and producers.load(path):
            start = offset
            break
        remove_files([path])
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if end > start and segment not in without:
            for header in segment.headers_from(start, past_damage=True):
                if header.producer_id >= 0 and not header.is_control:
                    producers.record(header, header.base_offset, now_ms)
    return producers


def snapshots(directory: Path) -> list[tuple[int, Path]]:
    """(offset, path) of the producer snapshots in a log's folder."""
    return [(offset, directory / name) for offset, name in _numbered(os.listdir(directory), SNAPSHOT_SUFFIX)]


def _numbered(names: Iterable[str], suffix: str) -> list[tuple[int, str]]:
    """(offset, name) of the files of a kind that are named after an offset, ascending."""
    stems = ((name.removesuffix(suffix), name) for name in names if name.endswith(suffix))
    return sorted((int(stem), name) for stem, name in stems if stem.isdigit())


@dataclass(slots=True)
class _Seen:
    """The facts that the check of a segment has seen of its batches, so that they need not be read again."""

    first: BatchHeader | None = None
    next_offset: int = 0
    epochs: dict[int, int] = field(default_factory=dict)
    """The offset at which each leader epoch begins."""
    idempotent: bool = False
    """True if a batch is an idempotent producer's."""

    def note(self, header: BatchHeader) -> None:
        if self.first is None:
            self.first = header
        self.next_offset = header.next_offset
        self.epochs.setdefault(header.leader_epoch, header.base_offset)
        self.idempotent = self.idempotent or header.producer_id >= 0


class _Opening:
    """One opening of a folder. Its fields are what the steps share."""

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        writer: FileWriter,
        clean_shutdown: bool,
        power_lost: bool,
        now_ms: int,
        closed: Closed | None,
    ) -> None:
        self._directory = directory
        self._config = config
        self._writer = writer
        self._clean = clean_shutdown
        self._power_lost = power_lost
        self._now_ms = now_ms
        self._seen: dict[Segment, _Seen] = {}
        self._checkpoint = self._written = load_checkpoint(directory)
        self._epochs = LeaderEpochs(directory / EPOCHS_FILE)
        self._epochs_known = self._epochs.load()
        self._gaps = load_gaps(directory)
        self._closed = closed
        self._end: int | None = None  # of all of it, if that is known

    def run(self) -> OpenedLog:
        names = self._settle_folder()
        segments = self._segments(names)
        self._believe_mark(segments[-1])
        self._remove_orphans(segments, names)
        segments = self._load(segments)
        end = self._end_offset(segments[-1], self._seen.get(segments[-1]))
        is_short = end < self._checkpoint.recovery_point
        if is_short:
            logger.error(
                "%s ends at %d, but was on disk up to %d", self._directory, end, self._checkpoint.recovery_point
            )
        start = max(self._checkpoint.log_start_offset, segments[0].base_offset)
        if start > end:
            logger.warning("%s ends at %d, before its start %d: begun anew", self._directory, end, start)
            remove_files(path for segment in segments for path in segment.paths())
            segments, end = [Segment(self._directory, start)], start
        segments[-1].open_for_append()
        self._set_first_append(segments[-1], self._seen.get(segments[-1]))
        self._settle_epochs(segments, start, end)
        plain = {segment for segment, seen in self._seen.items() if not seen.idempotent}
        producers = rebuild_producers(self._directory, segments, end, self._now_ms, plain)
        watermark = min(max(self._checkpoint.high_watermark, start), end)
        checkpoint = replace(
            self._checkpoint,
            log_start_offset=start,
            high_watermark=watermark,
            recovery_point=min(self._checkpoint.recovery_point, end),
        )
        gaps = self._settle_gaps(names, end)
        return OpenedLog(segments, checkpoint, self._written, self._epochs, producers, gaps, end, is_short)

    def _believe_mark(self, last: Segment) -> None:
        """Go by what the mark of the clean stop says. If it speaks of another log, this one is checked."""
        if self._closed is None:
            return
        size = last.path.stat().st_size if last.path.exists() else 0
        if not self._closed.speaks_of(last.base_offset, size):
            logger.warning("%s is not the log that was closed here: it is checked", self._directory)
            self._clean = False
            return
        self._checkpoint = self._closed.checkpoint
        self._end = self._checkpoint.recovery_point
        self._epochs.replace(self._closed.epochs)
        self._epochs_known = True

    def _settle_folder(self) -> list[str]:
        """Remove leftovers, and settle a compaction's swap that was interrupted. The names of the files that stay."""
        names = os.listdir(self._directory)
        self._remove(name for name in names if name.endswith(_LEFTOVERS))
        if MANIFEST in names or any(name.endswith(CLEANED_SUFFIX) for name in names):
            recover(self._directory, self._writer)
            names = os.listdir(self._directory)
        return [name for name in names if not name.endswith(_LEFTOVERS)]

    def _remove(self, names: Iterable[str]) -> None:
        remove_files(self._directory / name for name in names)

    def _segments(self, names: list[str]) -> list[Segment]:
        bases = [base for base, _ in _numbered(names, LOG_SUFFIX)]
        return [Segment(self._directory, base) for base in bases or [self._checkpoint.log_start_offset]]

    def _remove_orphans(self, segments: list[Segment], names: list[str]) -> None:
        """Remove indexes of segments that are gone, and snapshots from before the first segment."""
        needed = {index.path.name for segment in segments for index in (segment.offsets, segment.times)}
        self._remove(name for name in names if name.endswith(_INDEXES) and name not in needed)
        first = segments[0].base_offset
        self._remove(name for offset, name in _numbered(names, SNAPSHOT_SUFFIX) if offset < first)

    def _load(self, segments: list[Segment]) -> list[Segment]:
        """Load or recover each segment. If one is cut in its unflushed part, the log ends there."""
        for number, segment in enumerate(segments):
            last = number == len(segments) - 1
            end = None if last else segments[number + 1].base_offset
            if end is None:
                segment.open_for_append()
            if self._must_verify(segment, end):
                cut = self._recover(segment)
                if end is not None and (cut or self._has_lost_its_end(segment, end)):
                    self._drop(segments[number + 1 :])
                    return segments[: number + 1]
            elif not segment.load():
                self._reindex(segment, self._checkpoint.recovery_point if end is None else end)
            else:
                segment.flushed = not last
            if not last:
                segment.seal()
        return segments

    def _must_verify(self, segment: Segment, end: int | None) -> bool:
        """True if the segment may hold batches that a crash has damaged."""
        if not self._clean:
            return end is None or end > self._checkpoint.recovery_point
        return end is None and not _ends_whole(segment, self._checkpoint.recovery_point)

    def _recover(self, segment: Segment) -> bool:
        """Check every batch, and cut the segment at the first bad one. Returns True if something was cut."""
        seen = self._seen[segment] = _Seen()
        length = segment.rebuild(
            self._config.index_interval_bytes,
            verify=True,
            on_batch=seen.note,
            flushed_to=self._checkpoint.recovery_point,
            end=self._end,
        )
        _tell_of_damage(segment)
        if segment.size_bytes == length:
            return False
        logger.warning(
            "%s: %d of %d bytes are not whole, undamaged batches: cut off",
            segment.path,
            length - segment.size_bytes,
            length,
        )
        segment.cut(segment.size_bytes, self._config.index_interval_bytes)
        return True

    def _has_lost_its_end(self, segment: Segment, end: int) -> bool:
        """True if the disk has not kept the last batches of a closed segment, which should end at `end`."""
        reached = max(segment.base_offset, self._seen[segment].next_offset, self._checkpoint.log_start_offset)
        if not self._power_lost or self._gaps is None or self._gaps.have(reached, end):
            return False
        logger.warning("%s ends at %d, and the next segment begins at %d", segment.path, reached, end)
        return True

    def _reindex(self, segment: Segment, end: int) -> None:
        """Make the indexes of a flushed segment anew from its file, because they are missing or broken."""
        logger.info("%s: rebuilding its indexes", segment.path)
        seen, interval = _Seen(next_offset=segment.base_offset), self._config.index_interval_bytes
        length = segment.rebuild(interval, verify=False, on_batch=seen.note, flushed_to=end, end=end)
        if segment.size_bytes != length and seen.next_offset < end:
            rest = length - segment.size_bytes
            segment.pass_over(BatchAt(segment.size_bytes, rest, seen.next_offset, end - 1), interval)
        _tell_of_damage(segment)
        if segment.size_bytes != length:
            logger.error("%s has more than its offsets after byte %d: skipped", segment.path, segment.size_bytes)

    def _drop(self, segments: list[Segment]) -> None:
        for segment in segments:
            logger.warning("%s follows the cut: removed", segment.path)
            segment.close()
            remove_files(segment.paths())
        self._writer.fsync_directory(self._directory)  # else they may come back beside what is appended now

    def _end_offset(self, active: Segment, seen: _Seen | None) -> int:
        if seen is not None:
            return active.base_offset if seen.first is None else seen.next_offset
        last = active.last_batch()
        return last.last_offset + 1 if last else active.base_offset

    def _set_first_append(self, active: Segment, seen: _Seen | None) -> None:
        if active.size_bytes:
            first = seen.first if seen is not None else None
            written = (first or active.header_at(0)).max_timestamp
            active.first_append_ms = min(written, self._now_ms) if written >= 0 else self._now_ms

    def _settle_gaps(self, names: list[str], end: int) -> Gaps:
        """The gaps that there may be. A log that is new has none, one of an earlier build may have some anywhere."""
        bases = _numbered(names, LOG_SUFFIX)
        found = self._gaps if self._gaps is not None else Gaps(settled_to=end if bases else 0)
        gaps = found.before(end)
        try:
            if self._gaps is None and len(bases) < 2:
                begin_gaps(self._directory)
                return Gaps()
            if gaps != self._gaps:
                save_gaps(self._directory, gaps, self._writer)
        except OSError as error:  # nothing is cut without it
            logger.warning("%s: cannot write its gaps: %s", self._directory, error)
        return gaps

    def _settle_epochs(self, segments: list[Segment], start: int, end: int) -> None:
        """Have the epochs of the file, and of the batches that were read; of all batches if there is no such file."""
        begins: dict[int, int] = {}
        for segment in segments:
            if (seen := self._seen.get(segment)) is not None:
                begins = {**seen.epochs, **begins}
            elif not self._epochs_known:
                for header in segment.headers_from(segment.base_offset, past_damage=True):
                    begins.setdefault(header.leader_epoch, header.base_offset)
        begins.update(self._epochs.entries())
        found = LeaderEpochs(self._directory / EPOCHS_FILE)
        for epoch, offset in sorted(begins.items()):
            found.assign(epoch, offset)
        self._epochs.replace(found.entries())
        self._epochs.truncate_end(end + 1)
        self._epochs.truncate_start(start)


def _ends_whole(segment: Segment, end: int) -> bool:
    """True if an active segment's indexes load, and its file ends with a whole batch, at the offset where it did."""
    if not segment.load():
        return False
    try:
        last = segment.last_batch()
    except StorageError:
        return False
    if last is None:
        return segment.size_bytes == 0
    return (segment.size_bytes, end) == (last.end, last.last_offset + 1)


def _tell_of_damage(segment: Segment) -> None:
    for each in segment.damaged.values():
        logger.error(
            "%s: offsets %d to %d are damaged, %d bytes at byte %d; what follows them is kept",
            segment.path,
            each.base_offset,
            each.last_offset,
            each.size_bytes,
            each.position,
        )
