"""OffsetCommit, OffsetFetch, OffsetDelete.

Reads see committed offsets; the checks of a write also see those under way. Expiry is in expiry.py, the deletion of
topics in topic_deletion.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import Any

from actors.coordinator.errors import Error
from actors.coordinator.groups.durable import DurableGroup
from actors.coordinator.groups.group import Group
from actors.coordinator.groups.messages import (
    FetchedOffset,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    Partitions,
    TopicPartition,
)
from actors.coordinator.groups.offset_records import (
    NO_TIMESTAMP,
    OffsetsDeleted,
    OffsetsPut,
    StoredOffsets,
    decode_offset_value,
    offset_key_prefix,
    offset_values,
    plain_offset_values,
)
from actors.coordinator.groups.runtime import GroupRuntime
from actors.coordinator.groups.topic_deletion import TopicDeletions
from actors.coordinator.record_fields import MAX_STRING_BYTES, fits
from actors.coordinator.turn import Now, Token
from actors.coordinator.writer import Write

_new = tuple.__new__  # takes half the time of a named tuple's own constructor
_Accepted = tuple[str, Partitions, Sequence[bytes]]  # a topic, and the values of the records of its partitions

NO_RETENTION = -1
END_OF_TIME_MS = 2**63 - 1


class Offsets:
    def __init__(self, runtime: GroupRuntime, deletions: TopicDeletions) -> None:
        self._runtime = runtime
        self._deletions = deletions

    # -- OffsetCommit

    def commit(self, token: Token, request: OffsetCommitRequest, now: Now) -> None:
        runtime = self._runtime
        group_id = request.group_id
        group = runtime.groups.get(group_id)  # type: ignore[arg-type]
        error = _check_new(request) if group is None else group.check_commit(request, runtime.timers, now)
        if error:
            runtime.replies.append((token, request.refused(error)))
            return
        errors, accepted = self._accept(request, now)
        if not accepted:
            runtime.replies.append((token, OffsetCommitResponse(errors)))
            return
        assert group_id is not None
        if group is None:
            group = runtime.groups[group_id] = runtime.new_simple(group_id, now.wall_ms)
        if self._deletions.under_way:
            self._deletions.before_commit(group_id, {topic for topic, _, _ in accepted}, now)
        keys: list[bytes] = []
        values: list[bytes] = []
        stored: list[StoredOffsets] = []
        for topic, partitions, its_values in accepted:
            prefix = group.key_prefixes.get(topic)
            if prefix is None:
                prefix = group.key_prefixes[topic] = offset_key_prefix(group_id, topic)
            its_keys, numbers = partitions.keys_and_numbers(prefix)
            keys += its_keys
            values += its_values
            stored.append(_new(StoredOffsets, (topic, numbers, its_values)))
        runtime.unanswered[token] = request
        write = CommitWrite(runtime, token, errors, _new(OffsetsPut, (group_id, stored)))
        runtime.writer.submit(write, keys, values, len(b"".join(keys)) + len(b"".join(values)), now)

    def _accept(self, request: OffsetCommitRequest, now: Now) -> tuple[list[int], list[_Accepted]]:
        """The error code of each offset, and what is to be stored."""
        retention_ms = request.retention_time_ms
        has_expiry = retention_ms != NO_RETENTION
        expire_ms = min(now.wall_ms + retention_ms, END_OF_TIME_MS) if has_expiry else NO_TIMESTAMP
        errors: list[int] = []
        accepted: list[_Accepted] = []
        for topic, partitions, offsets, metadata, topic_id in request.topics:
            if metadata is None and not has_expiry:
                values = plain_offset_values(offsets, now.wall_ms, topic_id)
                errors += [0] * len(values)
            else:
                texts = metadata or [b""] * len(partitions)
                codes = [self._check_metadata(text) for text in texts]
                fit = [not code for code in codes]
                rows = compress(zip(offsets, texts, strict=True), fit)
                values = offset_values(rows, now.wall_ms, expire_ms, topic_id)
                partitions = Partitions(list(compress(partitions.indexes, fit)))
                errors += codes
            if values:
                accepted.append((topic, partitions, values))
        return errors, accepted

    def _check_metadata(self, metadata: bytes) -> int:
        """The limit counts UTF-16 code units, whatever its name says; a record has a limit of its own."""
        limit, size = self._runtime.config.offset_metadata_max_bytes, len(metadata)
        if size > MAX_STRING_BYTES or (size > limit and len(metadata.decode().encode("utf-16-be")) // 2 > limit):
            return Error.OFFSET_METADATA_TOO_LARGE
        return Error.NONE

    # -- OffsetFetch, versions 1 to 9

    def fetch(self, token: Token, request: OffsetFetchRequest, now: Now) -> None:
        if request.group_id is None:
            self._runtime.replies.append((token, OffsetFetchResponse(Error.INVALID_GROUP_ID)))
            return
        if request.require_stable:
            self._runtime.park(token, request)
            reader = StableRead(self, token, request, self._runtime.writer.last_batch_id)
            reader.read(now)
        else:
            self._runtime.replies.append((token, self.read(request)))

    def read(self, request: OffsetFetchRequest) -> OffsetFetchResponse:
        live = self._runtime.groups.get(request.group_id or "")
        error = live.check_fetch(request.member_id, request.member_epoch) if live is not None else Error.NONE
        if error:
            return OffsetFetchResponse(error)
        group = self._runtime.durable.get(request.group_id or "")
        if group is None:
            offsets = (FetchedOffset(topic, partition) for topic, partition in request.partitions or ())
        else:
            wanted = group.offsets if request.partitions is None else request.partitions
            offsets = (self._fetched(group, at, request) for at in wanted)
        return OffsetFetchResponse(Error.NONE, tuple(offsets))

    @staticmethod
    def _fetched(group: DurableGroup, at: TopicPartition, request: OffsetFetchRequest) -> FetchedOffset:
        if request.require_stable and group.is_unstable(at):
            return FetchedOffset(*at, error_code=Error.UNSTABLE_OFFSET_COMMIT)
        value = group.offsets.get(at)
        if value is None:
            return FetchedOffset(*at)
        stored = decode_offset_value(value)
        if stored.topic_id and request.topic_ids.get(at[0], stored.topic_id) != stored.topic_id:
            return FetchedOffset(*at)  # of a topic that had this name
        return FetchedOffset(*at, stored.offset, stored.leader_epoch, stored.metadata)

    def wait(self, reader: StableRead, group_id: str, up_to: int, now: Now) -> bool:
        return self._runtime.writer.wait_for(group_id, up_to, reader, now)

    def answer(self, token: Token, response: OffsetFetchResponse) -> None:
        self._runtime.answer(token, response)

    # -- OffsetDelete, version 0

    def stored(self, group_id: str) -> set[TopicPartition]:
        """The partitions that have an offset, or may get one when writes under way commit."""
        group = self._runtime.durable.get(group_id)
        found = set(group.offsets).union(*group.pending.values()) if group is not None else set()
        for change in self._runtime.writer.pending_changes(group_id):
            if isinstance(change, OffsetsPut):
                found.update(change.partitions())
        return found

    def delete(self, token: Token, request: OffsetDeleteRequest, now: Now) -> None:
        runtime = self._runtime
        runtime.park(token, request)
        group = runtime.groups.get(request.group_id or "")
        error = self._check_delete(group, request)
        if error:
            runtime.answer(token, OffsetDeleteResponse(error))
            return
        assert group is not None
        results = tuple((t, p, Error.GROUP_SUBSCRIBED_TO_TOPIC if group.reads(t) else Error.NONE)
                        for t, p in request.partitions)  # fmt: skip
        stored = self.stored(group.group_id)
        gone = [(t, p) for t, p, error in results if not error and (t, p) in stored]
        response = OffsetDeleteResponse(Error.NONE, results)
        if gone:
            changes = [*runtime.record_of_its_own(group.group_id), OffsetsDeleted(group.group_id, gone)]
            runtime.write(OffsetDeleteWrite(runtime, token, response, changes), now)
        else:
            runtime.answer(token, response)

    @staticmethod
    def _check_delete(group: Group | None, request: OffsetDeleteRequest) -> Error:
        if not request.group_id:
            return Error.INVALID_GROUP_ID
        if group is None or group.is_dead:
            return Error.GROUP_ID_NOT_FOUND
        return group.check_offset_delete()


def _check_new(request: OffsetCommitRequest) -> int:
    """The error of a commit to an unknown group. Without a generation it makes one, even with an empty id."""
    if request.group_id is None or not fits(request.group_id):
        return Error.INVALID_GROUP_ID
    if request.generation_id < 0:
        return 0
    return Error.GROUP_ID_NOT_FOUND if request.api_version >= 9 else Error.ILLEGAL_GENERATION


class CommitWrite(Write):
    __slots__ = ("_errors", "_runtime", "_token")

    def __init__(self, runtime: GroupRuntime, token: Token, errors: list[int], change: OffsetsPut) -> None:
        self.changes = [change]
        self._runtime = runtime
        self._token = token
        self._errors = errors

    def committed(self, now: Now) -> None:
        runtime = self._runtime
        runtime.metrics.offset_commits += self._errors.count(0)  # the others were refused beforehand
        runtime.answer(self._token, _new(OffsetCommitResponse, (self._errors,)))

    def failed(self, error: int, now: Now) -> None:
        self._answer(error)
        self._runtime.reap(self.changes[0].group_id)

    def timed_out(self, now: Now) -> None:
        self._answer(Error.COORDINATOR_NOT_AVAILABLE)

    def _answer(self, error: int) -> None:
        self._runtime.answer(self._token, OffsetCommitResponse([e or error for e in self._errors]))


class OffsetDeleteWrite(Write):
    __slots__ = ("_response", "_runtime", "_token")

    def __init__(
        self,
        runtime: GroupRuntime,
        token: Token,
        response: OffsetDeleteResponse,
        changes: list[Any],
    ) -> None:
        super().__init__(changes)
        self._runtime = runtime
        self._token = token
        self._response = response

    def committed(self, now: Now) -> None:
        self._runtime.metrics.offset_deletions += sum(
            len(change.partitions) for change in self.changes if isinstance(change, OffsetsDeleted)
        )
        self._runtime.answer(self._token, self._response)
        for change in self.changes:
            self._runtime.reap(change.entity)

    def failed(self, error: int, now: Now) -> None:
        request = self._runtime.unanswered.get(self._token)
        if request is not None:
            self._runtime.answer(self._token, request.refused(error))


class StableRead(Write):
    """A fetch that is answered when the outcome of all earlier writes to the group is known."""

    __slots__ = ("_offsets", "_request", "_token", "_up_to")

    def __init__(self, offsets: Offsets, token: Token, request: OffsetFetchRequest, up_to: int) -> None:
        super().__init__([])
        self._offsets = offsets
        self._token = token
        self._request = request
        self._up_to = up_to

    def read(self, now: Now) -> None:
        if not self._offsets.wait(self, self._request.group_id or "", self._up_to, now):
            self._offsets.answer(self._token, self._offsets.read(self._request))

    def committed(self, now: Now) -> None:
        self.read(now)

    def failed(self, error: int, now: Now) -> None:
        """An earlier write has failed, so the fetch can read without it."""
        self.read(now)

    def timed_out(self, now: Now) -> None:
        """Answered NOT_COORDINATOR: older clients do not expect COORDINATOR_NOT_AVAILABLE from a fetch."""
        self._offsets.answer(self._token, OffsetFetchResponse(Error.NOT_COORDINATOR))
