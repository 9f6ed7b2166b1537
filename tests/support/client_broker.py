"""A broker for tests of the clients: speaks Kafka on a loopback port, keeps everything in memory, does what it is told.

By default it works: one node, topics, a group with one member. `script(Request, *answers)` puts answers (values,
functions of the request, or DROP) in front of that; `requests(Request)` lists what was received.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any

from actors.client.group.assignors.protocol import Assignment, Subscription
from actors.client.records import TopicPartition
from actors.records.batch import iter_batches, stamp
from actors.records.building import build_batch
from actors.wire import messages as m
from actors.wire.framing import decode_request_header, encode_response

DROP = object()
"""As an answer: close the connection instead."""
SILENCE = object()
"""As an answer: none at all."""
RUBBISH = object()
"""As an answer: bytes that are none."""

VERSIONS: dict[type[m.ApiMessage], tuple[int, int]] = {
    m.ApiVersionsRequest: (0, 3),
    m.MetadataRequest: (1, 12),
    m.FindCoordinatorRequest: (0, 4),
    m.JoinGroupRequest: (2, 9),
    m.SyncGroupRequest: (1, 5),
    m.HeartbeatRequest: (1, 4),
    m.LeaveGroupRequest: (1, 5),
    m.OffsetCommitRequest: (2, 9),
    m.OffsetFetchRequest: (1, 8),
    m.FetchRequest: (4, 12),
    m.ListOffsetsRequest: (1, 7),
    m.OffsetForLeaderEpochRequest: (2, 4),
    m.ProduceRequest: (3, 9),
    m.InitProducerIdRequest: (0, 4),
}


class ScriptedBroker:
    """See the module's first lines. `logs` holds each partition's batches as bytes; `committed` the group's offsets."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.logs: dict[TopicPartition, bytearray] = {}
        self.starts: dict[TopicPartition, int] = defaultdict(int)
        self.ends: dict[TopicPartition, int] = defaultdict(int)
        self.stable: dict[TopicPartition, int] = {}  # last stable offsets before the end
        self.aborted: dict[TopicPartition, list[tuple[int, int]]] = {}
        self.epoch = 0
        self.committed: dict[TopicPartition, int] = {}
        self.generation = 0
        self.sequences: dict[tuple[TopicPartition, int], int] = {}
        self.give: Callable[[str], list[TopicPartition]] | None = None
        self.versions = dict(VERSIONS)
        self._received: list[tuple[m.ApiMessage, int, int]] = []
        self._scripts: dict[type, deque[Any]] = defaultdict(deque)
        self._sockets: list[socket.socket] = []
        self._dropped: set[socket.socket] = set()
        self._joined: list[Any] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.bootstrap_servers = f"127.0.0.1:{self.port}"
        self.connections = 0
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    # --- for tests ----------------------------------------------------------------------------------------------------

    def topic(self, name: str, partitions: int = 1) -> None:
        for n in range(partitions):
            self.logs.setdefault(TopicPartition(name, n), bytearray())

    def append(self, topic: str, partition: int, *values: bytes, **options: Any) -> None:
        """One batch of these values."""
        records = [(options.get("key"), value, options.get("headers"), 1_700_000_000_000) for value in values]
        batch = build_batch(records, **{k: v for k, v in options.items() if k not in ("key", "headers")})
        self.append_batch(TopicPartition(topic, partition), batch)

    def append_batch(self, tp: TopicPartition, batch: bytes) -> int:
        with self.changed:
            stamped = bytearray(batch)
            base = self.ends[tp]
            stamp(stamped, base, self.epoch)
            self.logs[tp] += stamped
            self.ends[tp] = next(iter_batches(bytes(stamped)))[2].next_offset
            self.changed.notify_all()
            return base

    def script(self, request: type[m.ApiMessage], *answers: Any) -> None:
        self._scripts[request].extend(answers)

    def requests(self, kind: type[m.ApiMessage]) -> list[Any]:
        return [message for message, *_ in list(self._received) if isinstance(message, kind)]

    def order(self, *kinds: type[m.ApiMessage]) -> list[str]:
        return [type(message).__name__ for message, *_ in list(self._received) if isinstance(message, kinds)]

    def versions_of(self, kind: type[m.ApiMessage]) -> list[int]:
        """The versions in which such requests came."""
        return [version for message, version, _ in list(self._received) if isinstance(message, kind)]

    def connections_of(self, kind: type[m.ApiMessage]) -> set[int]:
        """The connections over which such requests came, by number."""
        return {number for message, _, number in list(self._received) if isinstance(message, kind)}

    def unused(self, request: type[m.ApiMessage]) -> int:
        """The number of scripted answers that no request has had yet."""
        return len(self._scripts[request])

    def drop_connections(self) -> None:
        """All at once: what comes over one of them after that is not heard any more."""
        with self.changed:
            self._dropped.update(self._sockets)
        for connection in list(self._dropped):
            # Not an SSLSocket's own method: the thread that reads would get from then on what was not decrypted.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def close(self) -> None:
        # Not closed under the thread that accepts: it would go on with the number of a descriptor that is another's by
        # then, and take the connections of the next broker.
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._server.close()
        self.drop_connections()

    # --- sockets ------------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self._sockets.append(connection)
                self.connections += 1
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), connection:
            while True:
                (size,) = struct.unpack(">i", exactly(connection, 4))
                frame = exactly(connection, size)
                header = decode_request_header(frame)
                kind = m.request_class(header.api_key)
                request = kind.decode(frame, header.api_version, header.body_offset)
                with self.changed:
                    if connection in self._dropped:
                        return
                    self._received.append((request, header.api_version, id(connection)))
                    self.changed.notify_all()
                answer = self.answer(kind, request)
                if answer is DROP:
                    return
                if answer is SILENCE or answer is None:
                    continue
                version = header.api_version
                if answer is RUBBISH:
                    connection.sendall(struct.pack(">iiB", 5, header.correlation_id, 0xFF))
                    continue
                if isinstance(answer, m.ApiVersionsResponse) and answer.error_code:
                    version = 0
                connection.sendall(encode_response(answer, version, header.correlation_id))
                self._after()

    def _after(self) -> None:
        """Called after each answer, in the thread of its connection."""

    def answer(self, kind: type, request: Any) -> Any:
        with self.changed:
            script = self._scripts[kind]
            answer = script.popleft() if script else None
        if callable(answer):
            answer = answer(request)
        if answer is not None:
            return answer
        return getattr(self, "on_" + kind.__name__.removesuffix("Request").lower())(request)

    # --- the usual answers ----------------------------------------------------------------------------

    def on_apiversions(self, request: Any) -> Any:
        entry = m.ApiVersionsResponse.ApiVersion
        keys = [entry(api_key=k.api_key, min_version=a, max_version=b) for k, (a, b) in self.versions.items()]
        return m.ApiVersionsResponse(api_keys=keys)

    def on_metadata(self, request: Any) -> Any:
        wanted = None if request.topics is None else {t.name for t in request.topics}
        counts: dict[str, int] = defaultdict(int)
        for tp in list(self.logs):
            counts[tp.topic] += 1
        part = m.MetadataResponse
        topics = [
            part.MetadataResponseTopic(
                name=name,
                topic_id=bytes(16),
                is_internal=name.startswith("__"),
                partitions=[
                    part.MetadataResponsePartition(
                        partition_index=n, leader_id=1, leader_epoch=self.epoch, replica_nodes=[1], isr_nodes=[1]
                    )
                    for n in range(count)
                ],
            )
            for name, count in counts.items()
            if wanted is None or name in wanted
        ]
        missing = [] if wanted is None else wanted - counts.keys()
        topics += [part.MetadataResponseTopic(name=name, topic_id=bytes(16), error_code=3) for name in missing]
        broker = part.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)
        return part(brokers=[broker], cluster_id="scripted", controller_id=1, topics=topics)

    def on_findcoordinator(self, request: Any) -> Any:
        entry = m.FindCoordinatorResponse.Coordinator
        host, port = "127.0.0.1", self.port
        return m.FindCoordinatorResponse(
            coordinators=[entry(key=k, node_id=1, host=host, port=port) for k in request.coordinator_keys],
            node_id=1,
            host=host,
            port=port,
        )

    def on_joingroup(self, request: Any) -> Any:
        if not request.member_id and request.group_instance_id is None:
            return m.JoinGroupResponse(error_code=79, member_id="member-1")
        self.generation += 1
        protocol = request.protocols[0]
        member = m.JoinGroupResponse.JoinGroupResponseMember(
            member_id="member-1", group_instance_id=request.group_instance_id, metadata=protocol.metadata
        )
        return m.JoinGroupResponse(
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name=protocol.name,
            leader="member-1",
            member_id="member-1",
            members=[member],
        )

    def on_syncgroup(self, request: Any) -> Any:
        mine = next((a.assignment for a in request.assignments), b"")
        if self.give is not None:
            mine = Assignment.of(self.give(request.member_id)).encode()
        return m.SyncGroupResponse(protocol_type="consumer", protocol_name=request.protocol_name, assignment=mine)

    def on_heartbeat(self, request: Any) -> Any:
        return m.HeartbeatResponse()

    def on_leavegroup(self, request: Any) -> Any:
        return m.LeaveGroupResponse()

    def on_offsetcommit(self, request: Any, code: int = 0) -> Any:
        part = m.OffsetCommitResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for p in topic.partitions:
                if code == 0:
                    self.committed[TopicPartition(topic.name, p.partition_index)] = p.committed_offset
                partitions.append(
                    part.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                )
            topics.append(part.OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return part(topics=topics)

    def on_offsetfetch(self, request: Any) -> Any:
        part = m.OffsetFetchResponse
        groups = []
        for group in request.groups or [request]:
            topics = []
            for topic in group.topics or []:
                partitions = [
                    part.OffsetFetchResponsePartitions(
                        partition_index=n,
                        committed_offset=self.committed.get(TopicPartition(topic.name, n), -1),
                        committed_leader_epoch=-1,
                    )
                    for n in topic.partition_indexes
                ]
                topics.append(part.OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
            groups.append(part.OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
        return part(groups=groups)

    def on_listoffsets(self, request: Any) -> Any:
        part = m.ListOffsetsResponse
        topics = []
        for topic in request.topics:
            partitions = []
            for p in topic.partitions:
                tp = TopicPartition(topic.name, p.partition_index)
                end = self.stable.get(tp, self.ends[tp]) if request.isolation_level else self.ends[tp]
                offset = self.starts[tp] if p.timestamp == -2 else end if p.timestamp == -1 else 0
                partitions.append(
                    part.ListOffsetsPartitionResponse(
                        partition_index=p.partition_index, timestamp=-1, offset=offset, leader_epoch=self.epoch
                    )
                )
            topics.append(part.ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return part(topics=topics)

    def on_offsetforleaderepoch(self, request: Any) -> Any:
        part = m.OffsetForLeaderEpochResponse
        topics = [
            part.OffsetForLeaderTopicResult(
                topic=t.topic,
                partitions=[
                    part.EpochEndOffset(
                        partition=p.partition,
                        leader_epoch=p.leader_epoch,
                        end_offset=self.ends[TopicPartition(t.topic, p.partition)],
                    )
                    for p in t.partitions
                ],
            )
            for t in request.topics
        ]
        return part(topics=topics)

    def on_fetch(self, request: Any) -> Any:
        with self.changed:
            response, found = self.fetched(request)
            if not found:
                self.changed.wait(min(request.max_wait_ms, 50) / 1000)
                response, _ = self.fetched(request)
            return response

    def fetched(self, request: Any) -> tuple[Any, bool]:
        part = m.FetchResponse
        found = False
        topics = []
        for topic in request.topics:
            partitions = []
            for p in topic.partitions:
                tp = TopicPartition(topic.topic, p.partition)
                data, code = b"", 0
                if 0 <= p.current_leader_epoch < self.epoch:
                    code, found = 74, True
                elif p.fetch_offset > self.ends[tp] or p.fetch_offset < self.starts[tp]:
                    code, found = 1, True
                else:
                    data = self._read(tp, p.fetch_offset, p.partition_max_bytes)
                    found = found or bool(data)
                aborted = [
                    part.AbortedTransaction(producer_id=pid, first_offset=at) for pid, at in self.aborted.get(tp, [])
                ]
                partitions.append(
                    part.PartitionData(
                        partition_index=p.partition,
                        error_code=code,
                        high_watermark=self.ends[tp],
                        last_stable_offset=self.ends[tp],
                        log_start_offset=self.starts[tp],
                        aborted_transactions=aborted,
                        preferred_read_replica=-1,
                        records=data,
                    )
                )
            topics.append(part.FetchableTopicResponse(topic=topic.topic, partitions=partitions))
        return part(responses=topics), found

    def _read(self, tp: TopicPartition, offset: int, limit: int) -> bytes:
        out = bytearray()
        log = bytes(self.logs.get(tp, b""))
        for start, end, header in iter_batches(log):
            if header.next_offset > offset:
                if out and len(out) + end - start > limit:
                    break
                out += log[start:end]
        return bytes(out)

    def on_initproducerid(self, request: Any) -> Any:
        self.producer_id = getattr(self, "producer_id", 41) + 1
        return m.InitProducerIdResponse(producer_id=self.producer_id, producer_epoch=0)

    def _in_sequence(self, tp: TopicPartition, records: bytes) -> bool:
        ((_, _, header),) = iter_batches(records)
        if header.base_sequence < 0:
            return True
        # As Kafka does: the first batch of a producer it does not know may have any sequence.
        expected = self.sequences.get((tp, header.producer_id), header.base_sequence)
        if header.base_sequence != expected:
            return False
        self.sequences[(tp, header.producer_id)] = expected + header.record_count
        return True

    def on_produce(self, request: Any) -> Any:
        part = m.ProduceResponse
        topics = []
        for topic in request.topic_data:
            partitions = []
            for p in topic.partition_data:
                tp = TopicPartition(topic.name, p.index)
                code, base = 0, -1
                if self._in_sequence(tp, p.records):
                    base = self.append_batch(tp, p.records)
                else:
                    code = 45
                partitions.append(
                    part.PartitionProduceResponse(
                        index=p.index, error_code=code, base_offset=base, log_append_time_ms=-1
                    )
                )
            topics.append(part.TopicProduceResponse(name=topic.name, partition_responses=partitions))
        return None if request.acks == 0 else part(responses=topics)


def exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes. Raises EOFError."""
    data = bytearray()
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


@contextlib.contextmanager
def broker() -> Iterator[ScriptedBroker]:
    made = ScriptedBroker()
    try:
        yield made
    finally:
        made.close()


__all__ = ["DROP", "RUBBISH", "SILENCE", "ScriptedBroker", "Subscription", "broker"]
