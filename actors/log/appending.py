"""Appending to a log, as its leader or as a follower: batches are checked, stamped, written and accounted for."""

from collections.abc import Sequence
from typing import NamedTuple

from actors.log.admission import Admitted, packed
from actors.log.flush import Flushing
from actors.log.producer_state import ProducerBatch
from actors.log.state import LogState
from actors.log.storage import Storage
from actors.records.batch import NO_TIMESTAMP, BatchHeader, Buffer, crc_matches, read_header, split_batches
from actors.records.building import without_records_before
from actors.records.errors import FENCED_LEADER_EPOCH, OFFSET_OUT_OF_RANGE, CorruptBatchError, LogError


class AppendResult(NamedTuple):
    """The result of an append."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool = False


class Appender:
    """The writing end of one log. After an error the log is as it was before."""

    def __init__(self, state: LogState, storage: Storage, flushing: Flushing) -> None:
        self._state = state
        self._storage = storage
        self._flushing = flushing

    def as_leader(self, admitted: Sequence[Admitted], leader_epoch: int, now_ms: int) -> AppendResult:
        """Append all of these batches, or none. They get the next offsets and `leader_epoch`."""
        state = self._state
        state.must_be_usable()
        if leader_epoch < state.epochs.latest:
            raise LogError(FENCED_LEADER_EPOCH, f"epoch {leader_epoch}, the log is at {state.epochs.latest}")
        repeated = self._repeated(admitted)
        if repeated is not None:
            return self._result(repeated.first_offset, repeated.last_offset, repeated.timestamp_ms, True)
        base = offset = state.end
        buffers: list[Buffer] = []
        for batch in admitted:
            buffers += (packed(batch, offset, leader_epoch), batch.payload)
            offset += batch.header.last_offset_delta + 1
        self._storage.write(buffers, base, offset, now_ms)
        for header, _ in admitted:
            state.grow(header, state.end, leader_epoch, now_ms)
        self._flushing.appended(offset - base, now_ms)
        last = admitted[-1].header  # its time is that of the check, which may have been a while ago
        time_ms = last.max_timestamp if last.is_log_append_time else NO_TIMESTAMP
        return AppendResult(base, offset - 1, time_ms, state.start)

    def as_follower(self, data: Buffer, now_ms: int) -> AppendResult:
        """Append batches that a leader has stamped. Of one that begins before the log's end the rest is taken."""
        state = self._state
        state.must_be_usable()
        batches = _from_leader(data, state.end)
        if not batches:
            return self._result(state.end, state.end - 1, -1)
        base, offset = batches[0].header.base_offset, batches[-1].header.next_offset
        self._storage.write([batch for _, batch in batches], base, offset, now_ms)
        for header, _ in batches:
            state.grow(header, header.base_offset, header.leader_epoch, now_ms)
        self._flushing.appended(offset - base, now_ms)
        return self._result(base, offset - 1, batches[-1].header.max_timestamp)

    def _repeated(self, admitted: Sequence[Admitted]) -> ProducerBatch | None:
        """Check the batches of idempotent producers. If this is a repeat: the batch that was appended before."""
        previous: BatchHeader | None = None
        for header, _ in admitted:
            if header.producer_id >= 0 and not header.is_control:
                found = self._state.producers.find_duplicate(header)
                if found is not None:
                    return found
                self._state.producers.check(header, previous)
                previous = header
        return None

    def _result(self, base: int, last: int, time_ms: int, duplicate: bool = False) -> AppendResult:
        stamped = self._state.config.message_timestamp_type == "LogAppendTime"
        return AppendResult(base, last, time_ms if stamped else NO_TIMESTAMP, self._state.start, duplicate)


class _Stamped(NamedTuple):
    """One whole batch as a leader has it."""

    header: BatchHeader
    batch: Buffer


def _from_leader(data: Buffer, log_end_offset: int) -> list[_Stamped]:
    """The batches to append: whole, undamaged, in order, without records before the log's end."""
    split = split_batches(data)
    if not split or split[-1][1] != len(data):
        raise CorruptBatchError(f"{len(data)} bytes from the leader are not whole batches")
    view, offset = memoryview(data), log_end_offset
    batches: list[_Stamped] = []
    for start, end, header in split:
        batch: Buffer = view[start:end]
        if not crc_matches(batch, header.crc):
            raise CorruptBatchError(f"batch at offset {header.base_offset} fails its checksum")
        if header.base_offset < offset:
            if batches or header.last_offset < offset:
                raise LogError(OFFSET_OUT_OF_RANGE, f"batch at {header.base_offset}, expected {offset}")
            rest = without_records_before(batch, header, offset)
            if rest is None:
                continue
            batch, header = rest, read_header(rest)
        batches.append(_Stamped(header, batch))
        offset = header.next_offset
    return batches
