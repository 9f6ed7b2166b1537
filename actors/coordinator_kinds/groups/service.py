"""The service before the shard of an offsets partition: it reads the clients' requests, and sends the shard's answers.

It also has the shard drop the offsets of topics that were deleted, and answers what the broker asks of groups.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from actors.coordinator.consumer.messages import (
    MembersDescribed,
    NoteSettingsRequest,
    NoteTopicsRequest,
    ResolutionsResponse,
)
from actors.coordinator.consumer.settings import ConsumerSettings
from actors.coordinator.consumer.topics import Topic
from actors.coordinator.consumer.topics import Topics as TopicImage
from actors.coordinator.group_types import GroupShard
from actors.coordinator.groups.messages import DeleteTopicOffsetsRequest, MaySleepRequest, MaySleepResponse
from actors.coordinator.turn import Now, Request
from actors.coordinator_kinds.groups.rebalances import RebalanceNews, log_rebalances
from actors.coordinator_kinds.groups.resolving import Resolving
from actors.coordinator_kinds.kind import Surroundings, Tell
from actors.group_api import (
    MODULES,
    Topics,
    consumer_group_describe,
    consumer_group_heartbeat,
    decode,
    heartbeat,
    offset_commit,
)
from actors.group_api.commits import Commits
from actors.group_api.heartbeats import KEYS, Heartbeats
from actors.links.known_topics import DeletedTopics, KnownTopics
from actors.links.relay import PAYLOADS, Assignment, Figures, Kind
from actors.wire.api_keys import ApiKey
from actors.wire.errors import WireError
from actors.wire.framing import RequestHeader, decode_request_header, encode_response, frame_response
from actors.wire.messages import ApiMessage

log = logging.getLogger(__name__)

# The first bytes of these requests' frames.
_OFFSET_COMMIT = ApiKey.OFFSET_COMMIT.to_bytes(2, "big")
_OFFSET_FETCH = ApiKey.OFFSET_FETCH.to_bytes(2, "big")

_COMMIT_KEY = int(ApiKey.OFFSET_COMMIT)  # an enum's member costs more to compare
_BROKER = 0  # as a connection: it asks itself
_RESPONSE = int(Kind.RESPONSE)  # an enum's member costs more to look up


class Client:
    """A client's connection to the broker."""

    __slots__ = ("_commits", "after_commits", "connection", "heartbeats", "host", "many", "open_commits")

    def __init__(self, connection: int, host: str) -> None:
        self.connection = connection
        self.host = host
        self.many = connection == _BROKER
        """True if these are the broker's own requests, made for many clients."""
        self.heartbeats = Heartbeats(host)
        self._commits = Commits()
        self.open_commits = 0
        """Its commits that are not answered yet."""
        self.after_commits: list[tuple[int, bytes]] = []
        """Its offset fetches (slot, frame) that wait for them."""

    def read(self, frame: bytes, topics: Topics) -> tuple[RequestHeader, ApiMessage, Request | None]:
        """A request's header, its message for the answer, and the coordinator's request, if there is any.

        Raises WireError if it is malformed or of a version not served.
        """
        if frame.startswith(KEYS):
            return self.heartbeats.read(frame)
        if frame.startswith(_OFFSET_COMMIT):
            return self._commits.read(frame, topics)
        header = decode_request_header(frame)
        message = decode(header, frame)
        return header, message, MODULES[header.api_key].parse(header, message, self.host, topics)

    def has_to_wait(self, frame: bytes) -> bool:
        """True if a frame waits for open commits: a client that asks after its commit expects to see it.

        The broker does not: some client's commit may always be open, and others would never be answered.
        """
        return not self.many and frame.startswith(_OFFSET_FETCH)


class _Asked:
    """A request that the shard has not answered yet. It is its token in the shard."""

    __slots__ = ("client", "header", "message", "slot", "topics")

    def __init__(self, client: Client, slot: int, header: RequestHeader, message: ApiMessage, topics: Topics) -> None:
        self.client = client
        self.slot = slot
        self.header = header
        self.message = message
        self.topics = topics  # it was parsed by these; answered by others its errors would go to other partitions


class _OwnRequest:
    """The token of a request of our own, such as to drop the offsets of deleted topics; nobody waits for its answer."""

    __slots__ = ()


class _MaySleep:
    """The token of the broker's question whether the process is needed."""

    __slots__ = ("question",)

    def __init__(self, question: int) -> None:
        self.question = question


class GroupService:
    """The clients of one shard, the topics that it knows of, and what it tells its broker."""

    def __init__(self, shard: GroupShard, assignment: Assignment, around: Surroundings) -> None:
        self.requests = 0
        self.handlers: Mapping[int, Tell] = {
            Kind.OPEN: self._open,
            Kind.CLOSE: self._close,
            Kind.TOPICS: self._note_topics,
            Kind.TOPICS_DELETED: self._topics_deleted,
            Kind.SETTINGS: self._note_settings,
            Kind.VISIBLE: self._visible,
            Kind.MAY_SLEEP: self._may_sleep,
            Kind.DESCRIBE: self._describe,
        }
        self._shard = shard
        self._partition = around.partition
        self._send = around.send
        self._say = around.say
        self._here = around.here
        self._topics = Topics(assignment.topics)
        self._known = assignment.known_topics
        self._settings = assignment.consumer
        self._gone: frozenset[str] = frozenset()  # topics deleted before the shard has loaded
        self._loaded = False
        self._clients: dict[int, Client] = {}  # by connection
        self._errors: Counter[int] = Counter()  # answers to clients, by API key
        self._news = RebalanceNews()
        self._descriptions: dict[_Asked, consumer_group_describe.Description] = {}
        """Of long descriptions what has been described so far, by the request's token."""
        self._resolving = Resolving(shard, around, _connection_of)

    # --- topics and settings ---

    def loaded(self, now: Now) -> None:
        """Drop the offsets of topics that were deleted while nobody served the partition.

        An image of the shard's own election or later has every topic that its former leaders took commits for, unless
        it is gone.
        """
        self._loaded = True
        self._shard.handle(_OwnRequest(), NoteSettingsRequest(self._settings), now)
        self._shard.handle(_OwnRequest(), NoteTopicsRequest(_image(self._known)), now)
        self._resolving.ask(now)
        self._drop_offsets((self._shard.coordinator.topics() - self._topics.ids.keys()) | self._gone, now)

    def _note_topics(self, _a: int, _b: int, payload: bytes, now: Now) -> None:
        self._known = PAYLOADS.read(KnownTopics, payload)
        topics = Topics(self._known.topics)
        gone = topics.deleted_since(self._topics)
        self._topics = topics
        if self._loaded:
            self._shard.handle(_OwnRequest(), NoteTopicsRequest(_image(self._known)), now)
        self._drop_offsets(gone, now)

    def _note_settings(self, _a: int, _b: int, payload: bytes, now: Now) -> None:
        self._settings = PAYLOADS.read(ConsumerSettings, payload)
        if self._loaded:
            self._shard.handle(_OwnRequest(), NoteSettingsRequest(self._settings), now)

    def _visible(self, _a: int, question: int, payload: bytes, now: Now) -> None:
        self._resolving.visible(question, payload, now)

    def _topics_deleted(self, _a: int, _b: int, payload: bytes, now: Now) -> None:
        self._drop_offsets(frozenset(PAYLOADS.read(DeletedTopics, payload).names), now)

    def _drop_offsets(self, gone: frozenset[str], now: Now) -> None:
        if not self._loaded:
            self._gone |= gone  # once all is loaded
        elif gone:
            self._shard.handle(_OwnRequest(), DeleteTopicOffsetsRequest(gone), now)

    # --- what the broker asks, and is told ---

    def _may_sleep(self, _a: int, question: int, _payload: bytes, now: Now) -> None:
        self._shard.handle(_MaySleep(question), MaySleepRequest(), now)

    def _describe(self, _a: int, question: int, group_id: bytes, now: Now) -> None:
        found = self._shard.coordinator.group_status(group_id.decode(), now)
        if found is None:
            self._send(Kind.DESCRIBED, 0, question, b"")
        else:
            self._say(Kind.DESCRIBED, found, 0, question)

    def send_news(self, now: Now) -> None:
        """Tell the broker of rebalances."""
        news = self._news.take(self._shard, now)
        if news is not None:
            log_rebalances(news, self._here)
            self._say(Kind.REBALANCES, news, 0, 0)

    def figures(self) -> Figures:
        """Counts since the partition is hosted, and of what is held."""
        shard, groups = self._shard, self._shard.coordinator
        errors = {str(key): count for key, count in self._errors.items()}
        counters = asdict(groups.metrics) | asdict(shard.metrics)
        types = groups.group_counts_by_type()
        counts = Counter[str]()
        for by_state in types.values():
            counts.update(by_state)
        held = dict(counts), groups.offset_count()
        return Figures(0, str(shard.state), *held, counters, errors, groups.parked(), types)

    # --- clients ---

    def _open(self, connection: int, _b: int, peer: bytes, _now: Now) -> None:
        self._clients[connection] = Client(connection, "/" + peer.decode())

    def _close(self, connection: int, _b: int, _payload: bytes, _now: Now) -> None:
        client = self._clients.pop(connection, None)
        self._shard.drop(lambda token: isinstance(token, _Asked) and token.client is client)
        self._descriptions = {
            asked: pieces for asked, pieces in self._descriptions.items() if asked.client is not client
        }

    def peer(self, connection: int) -> str:
        """The client at the other end of a connection, for people; empty if it is not known."""
        client = self._clients.get(connection)
        return client.host if client is not None else ""

    def request(self, connection: int, slot: int, frame: bytes, now: Now) -> None:
        """Read a client's request, and ask the shard."""
        client = self._clients.get(connection)
        if client is None:
            client = self._clients[connection] = Client(connection, "")
        if client.open_commits and client.has_to_wait(frame):
            client.after_commits.append((slot, frame))
            return
        self.requests += 1
        try:
            header, message, request = client.read(frame, self._topics)
        except WireError as error:
            host = client.host or "?"
            log.warning("a malformed group request from %s: %s", host, error, extra=self._here(peer=host))
            self._send(_RESPONSE, 0, slot, b"")  # an empty answer: the broker closes that connection
            return
        if request is None:
            answer = MODULES[header.api_key].answer(message, None, header.api_version, self._topics)
            self._send(_RESPONSE, 0, slot, encode_response(answer, header.api_version, header.correlation_id))
            return
        client.open_commits += header.api_key == _COMMIT_KEY
        self._shard.handle(_Asked(client, slot, header, message, self._topics), request, now)

    # --- answers ---

    def send_answers(self, now: Now) -> None:
        """Send what the shard has answered."""
        while replies := self._shard.take_replies():
            for token, response in replies:
                if isinstance(token, _Asked):
                    self._answer(token, response, now)
                elif isinstance(token, _MaySleep) and isinstance(response, MaySleepResponse):
                    self._say(Kind.RESTS, response, self._partition, token.question)
                elif isinstance(response, MembersDescribed):
                    self._take_piece(response)
                elif isinstance(response, ResolutionsResponse):
                    self._resolving.resolve(response, now)

    def _take_piece(self, piece: MembersDescribed) -> None:
        asked = piece.token
        assert isinstance(asked, _Asked)
        if self._clients.get(asked.client.connection) is not asked.client:
            return  # it has gone in this turn
        if asked not in self._descriptions:
            self._descriptions[asked] = consumer_group_describe.Description(asked.header.api_version)
        self._descriptions[asked].add(piece)

    def _answer(self, asked: _Asked, response: Any, now: Now) -> None:
        api_key, version, correlation_id, _, _ = asked.header
        module = MODULES[api_key]
        error: int
        if module is offset_commit:
            body = offset_commit.body(asked.message, response, version, asked.topics)  # type: ignore[arg-type]
            error = any(response.error_codes)
        elif module is heartbeat:
            error = response.error_code
            body = heartbeat.body(error, version)
        elif module is consumer_group_heartbeat:
            body = asked.client.heartbeats.body(asked.message, response, version)
            error = response.error_code
        elif (pieces := self._descriptions.pop(asked, None)) is not None:
            body, error = pieces.body(asked.message, response), 0  # type: ignore[arg-type]
        else:
            body = module.answer(asked.message, response, version, asked.topics).encode(version)
            error = getattr(response, "error_code", 0)
        if error and not asked.client.many:  # the broker counts those of its own requests
            self._errors[api_key] += 1
        self._send(_RESPONSE, 0, asked.slot, frame_response(body, api_key, version, correlation_id))
        if module is offset_commit:
            self._committed(asked.client, now)

    def _committed(self, client: Client, now: Now) -> None:
        client.open_commits -= 1
        if client.after_commits and not client.open_commits:
            waiting, client.after_commits = client.after_commits, []
            for slot, frame in waiting:
                self.request(client.connection, slot, frame, now)


def _connection_of(token: object) -> int:
    """The connection of the client that has sent a request."""
    return token.client.connection if isinstance(token, _Asked) else _BROKER


def _image(known: KnownTopics) -> TopicImage:
    racks = {each.topic: each.racks for each in known.racks}
    leaders = {each.topic: each.racks for each in known.leaders}
    topics = (Topic(i, name, count, racks.get(name, ()), leaders.get(name, ())) for name, i, count in known.topics)
    return TopicImage(topics, known.version)
