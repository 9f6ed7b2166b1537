"""All that has ever committed in any log, compared with every replica: `replicas-agree`."""

from __future__ import annotations

from collections.abc import Iterator

from actors.log.damage import DamagedBatchError
from actors.log.partition_log import PartitionLog
from actors.records.batch import split_batches
from actors.records.reading import iter_key_values
from placement.metadata import OFFSETS_TOPIC
from tests.sim.engine import Simulation, ViolationError
from tests.sim.group_truth import CommittedGroups
from tests.support.read_records import read_records

_READ_BYTES = 1 << 20


class CommittedLogs:
    """By log (the name of its folder) and base offset: the batches below anybody's high watermark."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self._batches: dict[str, dict[int, tuple[int, bytes]]] = {}
        self._ends: dict[str, int] = {}
        self.groups = CommittedGroups(sim)

    def end(self, name: str) -> int:
        """Up to where a log is known to have committed."""
        return self._ends.get(name, 0)

    def judge(self, log: PartitionLog, start: int) -> None:
        """A replica's high watermark has moved from `start` to where it is."""
        name = log.directory.name
        batches = self._batches.setdefault(name, {})
        for data in pieces(log, start, log.high_watermark):
            for begin, end, header in split_batches(data):
                if header.base_offset >= log.high_watermark:
                    break
                batch = bytes(data[begin:end])
                known = batches.get(header.base_offset)
                if known is not None and known[0] == header.crc:
                    continue
                if header.base_offset >= self._ends.get(name, 0):
                    batches[header.base_offset] = (header.crc, batch)
                    self._ends[name] = header.next_offset
                    if name.startswith(OFFSETS_TOPIC):
                        self.groups.read(iter_key_values(batch))
                else:
                    self._compare(log, batch)

    def _compare(self, log: PartitionLog, batch: bytes) -> None:
        """Compare records, not bytes: compaction writes batches anew, but never other records."""
        known = {
            record.offset: (record.key, record.value)
            for _, data in self._batches[log.directory.name].values()
            for record in read_records(data)
        }
        for record in read_records(batch):
            if known.get(record.offset) != (record.key, record.value):
                where = f"{log.directory.parent.name} has another record at {record.offset} of {log.directory.name}"
                self.sim.fail("replicas-agree", f"{where} below its high watermark {log.high_watermark}")

    @staticmethod
    def keys_and_values(log: PartitionLog, end: int) -> list[tuple[bytes, bytes | None]]:
        """All records of a log below `end`."""
        found: list[tuple[bytes, bytes | None]] = []
        for data in pieces(log, log.log_start_offset, end):
            for begin, stop, header in split_batches(data):
                if header.base_offset < end:
                    found += [(key or b"", value) for key, value in iter_key_values(bytes(data[begin:stop]))]
        return found

    @staticmethod
    def values(log: PartitionLog) -> dict[int, bytes]:
        """Value by offset, of the whole log."""
        found = {}
        for data in pieces(log, log.log_start_offset, log.log_end_offset):
            found.update((record.offset, record.value or b"") for record in read_records(data))
        return found


def pieces(log: PartitionLog, start: int, end: int) -> Iterator[bytes]:
    """The batches from the one that holds `start` up to `end`. Here no disk damages what it has synced."""
    offset = max(start, log.log_start_offset)
    while offset < end:
        try:
            data, offset = log.read_with_end(offset, _READ_BYTES)
        except DamagedBatchError as error:
            raise ViolationError(f"records-survive: {error}") from error
        if data:
            yield data
