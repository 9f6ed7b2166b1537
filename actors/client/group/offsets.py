"""Committing and fetching offsets: the requests, and what each answer means to the caller. Sans-IO.

A commit takes the member (`member.Committer`): the member says as whom it is made and sent, and hears of the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from actors.client.error_codes import error_for
from actors.client.errors import KafkaError, TopicAuthorizationError
from actors.client.group.generation import Generation
from actors.client.group.member import Committer
from actors.client.records import Node, OffsetAndMetadata, TopicPartition
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse

_MOVED: Final = (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR, Code.REQUEST_TIMED_OUT)

Offsets = Mapping[TopicPartition, OffsetAndMetadata]
Ids = Mapping[TopicPartition, bytes]
"""The id of each partition's topic."""
NO_IDS: Final[Ids] = {}
NOWHERE: Final = Generation()
_NOT_THE_PLACE: Final = (Code.STALE_MEMBER_EPOCH, Code.UNKNOWN_MEMBER_ID)
_NO_ID: Final = bytes(16)
_BY_ID_FROM: Final = 10
"""From this version on OffsetCommit and OffsetFetch name topics by id alone."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit on its way, with the membership it was made under.

    `by_id`: the ids of all its topics are known. `withheld` is what the program is to be told about offsets that are
    not in it.
    """

    request: OffsetCommitRequest
    generation: Generation
    node: Node | None
    by_id: bool = False
    min_version: int = 0
    withheld: KafkaError | None = None

    def sent(self, node: Node, generation: Generation) -> Commit:
        """This commit as it is sent: to this coordinator, in this place."""
        if generation != self.generation:
            self.request.generation_id_or_member_epoch = generation.id
            self.request.member_id = generation.member_id
        return replace(self, node=node, generation=generation)

    @property
    def max_version(self) -> int | None:
        return _BY_ID_FROM if self.by_id else None


def make_commit(member: Committer, offsets: Offsets, now_ms: int, ids: Ids = NO_IDS) -> Commit:
    """A commit as a member of the group, or without a membership if partitions were assigned by hand.

    `ids` are those of all its topics; without any, the topics are named.

    Raises RebalanceInProgressError or CommitFailedError if this member may not commit now, ValueError for an offset
    below 0.
    """
    generation = member.commits_as(now_ms)
    topics: dict[tuple[str, bytes], list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
    for tp, offset in sorted(offsets.items()):
        if offset.offset < 0:
            raise ValueError(f"cannot commit offset {offset.offset} of {tp.topic}-{tp.partition}: it is negative")
        topics.setdefault((tp.topic, ids.get(tp, _NO_ID)), []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=tp.partition,
                committed_offset=offset.offset,
                committed_leader_epoch=offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    request = OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=generation.id,
        member_id=generation.member_id,
        group_instance_id=member.instance_id if member.subscribed else None,
        retention_time_ms=-1,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ],
    )
    lowest = member.commits_from if member.subscribed else 0
    return Commit(request, generation, member.coordinator, bool(ids), lowest)


def judge_commit(member: Committer, commit: Commit, response: OffsetCommitResponse, now_ms: int) -> KafkaError | None:
    """None if everything was committed, else the error to raise or, if it is retriable, to try again after.

    The first partition in trouble decides, except that topics without authorization are collected.
    """
    unauthorized = set()
    names = {topic.topic_id: topic.name for topic in commit.request.topics}
    for topic in response.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for partition in topic.partitions:
            code = partition.error_code
            if code == Code.NONE:
                continue
            if code == Code.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(name)
                continue
            where = f"committing {name}-{partition.partition_index} for group {member.group_id}"
            return _commit_error(member, commit, code, where, now_ms)
    member.lookup.alive()
    return TopicAuthorizationError(topics=unauthorized) if unauthorized else None


def _commit_error(member: Committer, commit: Commit, code: int, where: str, now_ms: int) -> KafkaError:
    if code in _MOVED:
        member.coordinator_lost(commit.node, now_ms, drop=True)
        return error_for(code, where)
    return member.commit_refused(code, commit.generation, where) or error_for(code, where)


def fetch_request(
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    ids: Ids = NO_IDS,
    place: Generation = NOWHERE,
) -> OffsetFetchRequest:
    """Ask for committed offsets (None: of all partitions), those of open transactions held back (KIP-447).

    `ids` are those of the topics, for versions that name them so. `place` is the asker's, if the coordinator is to
    check it.
    """
    wanted: dict[tuple[str, bytes], list[int]] | None = None
    if partitions is not None:
        wanted = {}
        for tp in sorted(partitions):
            wanted.setdefault((tp.topic, ids.get(tp, _NO_ID)), []).append(tp.partition)
    request = OffsetFetchRequest
    return request(
        group_id=group_id,
        topics=None
        if wanted is None
        else [request.OffsetFetchRequestTopic(name=t, partition_indexes=ps) for (t, _), ps in wanted.items()],
        groups=[
            request.OffsetFetchRequestGroup(
                group_id=group_id,
                member_id=place.member_id or None,
                member_epoch=place.id,
                topics=None
                if wanted is None
                else [
                    request.OffsetFetchRequestTopics(name=t, topic_id=topic_id, partition_indexes=ps)
                    for (t, topic_id), ps in wanted.items()
                ],
            )
        ],
        require_stable=True,
    )


@dataclass(frozen=True, slots=True)
class Fetched:
    """Committed offsets (None: nothing is committed), or why there are none; `lost`: look for the coordinator again.

    `again`: the error is about the asker's place, which may be another one by now.
    """

    offsets: dict[TopicPartition, OffsetAndMetadata | None]
    error: KafkaError | None = None
    lost: bool = False
    again: bool = False


def judge_fetch(group_id: str, response: OffsetFetchResponse, ids: Ids = NO_IDS) -> Fetched:
    """The content of an OffsetFetch answer. `ids` are those that were asked by."""
    answer = response.groups[0] if response.groups else response
    code = answer.error_code
    what = f"fetching the offsets of group {group_id}"
    if code != Code.NONE:
        lost = code in (Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)
        return Fetched({}, error_for(code, what), lost, again=code in _NOT_THE_PLACE)
    offsets: dict[TopicPartition, OffsetAndMetadata | None] = {}
    unauthorized = set()
    names = {topic_id: tp.topic for tp, topic_id in ids.items()}
    for topic in answer.topics:
        name = topic.name or names.get(getattr(topic, "topic_id", b""), "")
        for p in topic.partitions:
            tp = TopicPartition(name, p.partition_index)
            if p.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
                unauthorized.add(name)
            elif p.error_code in (Code.UNSTABLE_OFFSET_COMMIT, Code.UNKNOWN_TOPIC_ID):
                return Fetched({}, error_for(p.error_code, what))
            elif p.error_code != Code.NONE:
                return Fetched({}, _fatal(error_for(p.error_code, f"{what}: {tp.topic}-{tp.partition}")))
            elif p.committed_offset < 0:
                offsets[tp] = None
            else:
                offsets[tp] = OffsetAndMetadata(p.committed_offset, p.metadata or "", p.committed_leader_epoch)
    if unauthorized:
        return Fetched({}, TopicAuthorizationError(topics=unauthorized))
    return Fetched(offsets)


def _fatal(error: KafkaError) -> KafkaError:
    """The error as one that is not retriable: repeating the request does not help here, whatever the code says."""
    if not error.retriable:
        return error
    return KafkaError(str(error))
