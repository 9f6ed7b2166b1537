"""A broker without Ray: the listener, the controller link, the logs, the shards, and who gets which request.

Everything runs on one uvloop loop; what would block it (recovery, retention, flushing) runs in an executor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from actors.broker.connection import Connection
from actors.broker.context import BrokerContext, Request, log_config
from actors.broker.controller_link import ControllerLink
from actors.broker.handlers import api_versions
from actors.broker.handlers.fan_out import HANDLERS as FAN_OUT
from actors.broker.handlers.registry import HANDLERS, error_response
from actors.broker.housekeeping import Housekeeper
from actors.broker.replication import ReplicaManager
from actors.broker.slots import Slot
from actors.group_api import VERSIONS as GROUP_VERSIONS
from actors.links.control import ControlProtocol
from actors.log.data_dir import META_NAME, DataDir, remove_folders
from actors.settings import BrokerConfig
from actors.shards.hub import ShardHub
from actors.wire.codec import read_uvarint, skip_tags
from actors.wire.errors import ErrorCode, WireError
from actors.wire.framing import API_VERSIONS, decode_request_header, encode_response
from actors.wire.messages import ProduceRequest, api_name, request_class
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

_HEAD = struct.Struct(">hhih")
_TICK_SECONDS = 0.25
_RECONNECT_SECONDS = 0.1
_UNREAD_SECONDS = 0.005
_DROPS_A_TURN = 50
_ANY_HOST = ("0.0.0.0", "::", "")
_JOIN_SECONDS = 20.0
_HAND_OVER_SECONDS = 10.0
_LEFT_SECONDS = 30.0  # after it has handed over, a broker that nobody stops counts as a replica again
_PRODUCE = ProduceRequest.api_key
_OFFSET_FETCH = 9
# Group requests whose first field is the group's id, and from which version on their header is flexible.
_RELAYED = {key: request_class(key).flexible_from for key in (8, 9, 11, 12, 13, 14, 47)}


class StartError(Exception):
    """A broker cannot start; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """What a broker is told when it is started. `port` 0 takes any free one."""

    broker_id: int
    bind_host: str
    advertised_host: str
    port: int
    advertised_port: int
    data_dir: str
    socket_path: str
    config: dict[str, str]


class BrokerServer:
    """One broker. `find_controller` returns (host, port, secret) and may block: it runs in an executor."""

    def __init__(self, spec: BrokerSpec, find_controller: Callable[[], tuple[str, int, bytes]]) -> None:
        self.spec = spec
        self.loop = asyncio.get_running_loop()
        self.config = BrokerConfig.from_mapping(spec.config)
        self.socket_request_max_bytes = self.config.integer("socket.request.max.bytes")
        self._group_request_max_bytes = self.config.integer("coterie.group.request.max.bytes")
        self._find_controller = find_controller
        self._connections: set[Connection] = set()
        self._per_address: Counter[str] = Counter()
        self._lease_seconds = self.config.integer("broker.session.timeout.ms") / 1000
        self._idle_seconds = self.config.integer("connections.max.idle.ms") / 1000
        self._next_connection = 0
        self._waiting_message: asyncio.Future[dict[str, Any]] | None = None
        self._listener: asyncio.AbstractServer | None = None
        self._relay_listener: asyncio.AbstractServer | None = None
        self.port = spec.port
        self._stopping = False
        self._registered = False
        self._rejoining = False
        self._silent: ControlProtocol | None = None  # to a controller that says nothing any more
        self._last_tick = 0.0
        self._requests = 0
        self._longest_turn = 0.0
        self._unread = 0
        self._unread_until = 0.0
        self._background: set[asyncio.Task[None]] = set()
        self._doomed: dict[tuple[str, int], None] = {}  # logs of deleted topics that are still here
        self.controller: ControllerLink
        self.context: BrokerContext
        self.replicas: ReplicaManager
        self.shards: ShardHub

    # --- starting and stopping ---

    async def start(self) -> None:
        """Join the cluster, recover the logs, listen. Raises StartError with the fix in its text."""
        joined = await self._join()
        metadata = ClusterMetadata.from_wire(joined["image"])
        self.config = _with_dynamic(self.config, metadata, self.spec.broker_id)
        data_dir = await self.loop.run_in_executor(None, self._open_logs, joined["cluster_id"], metadata)
        self.context = BrokerContext(
            self.spec.broker_id, self.config, data_dir, self.controller, self.loop, _wall_ms, metadata
        )
        self.replicas = ReplicaManager(
            self.context,
            lambda: self.controller.secret,
            lambda: self.controller.epoch,
            lambda: self.controller.last_confirmed,
        )
        self.context.replication = self.replicas
        self.context.response_bytes_waiting = self._response_bytes_waiting
        self.shards = ShardHub(self.context, self._want_spares)
        self.context.shards = self.shards
        self._relay_listener = await self._listen_for_shards()
        self._listener = await self._listen()
        self._replica_port = await self.replicas.listen(self.spec.bind_host)
        await self._register()
        data_dir.note_boot()
        if not self.controller.connected:  # lost again before this was noted
            self.on_controller_lost(self.controller)
        self._housekeeper = Housekeeper(self.context)
        self._housekeeper.start()
        self._last_tick = self.loop.time()
        self.loop.call_later(_TICK_SECONDS, self._tick)

    async def _join(self) -> dict[str, Any]:
        deadline = self.loop.time() + _JOIN_SECONDS
        while True:
            try:
                return await self._join_once()
            except (TimeoutError, OSError) as error:
                if self.loop.time() > deadline:
                    raise StartError(f"broker {self.spec.broker_id} cannot reach the controller: {error}") from error
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _join_once(self) -> dict[str, Any]:
        host, port, secret = await self.loop.run_in_executor(None, self._find_controller)
        link = ControllerLink(self, secret)
        older = getattr(self, "controller", None)
        if older is not None:  # the lease and the epoch are the broker's, not the connection's
            link.last_confirmed, link.epoch = older.last_confirmed, older.epoch
            older.close()
        self.controller = link
        await link.connect(host, port)
        return await self._ask({"type": "join"})

    async def _ask(self, message: dict[str, Any]) -> dict[str, Any]:
        self._waiting_message = self.loop.create_future()
        self.controller.send(message)
        return await asyncio.wait_for(self._waiting_message, 10)

    def _open_logs(self, cluster_id: str, metadata: ClusterMetadata) -> DataDir:
        path = Path(self.spec.data_dir)
        if self.spec.broker_id in metadata.brokers and not (path / META_NAME).exists():
            raise StartError(
                f"data directory {path} of broker {self.spec.broker_id} is missing or has no {META_NAME}: bring it "
                "back, or start a new cluster with another --data-dir"
            )
        data_dir = DataDir.open(path, cluster_id, self.spec.broker_id)
        topics = metadata.topics

        def config_of(topic: str) -> Any:
            return log_config(topics[topic].configs if topic in topics else {}, self.config)

        for folder in data_dir.load(config_of, _wall_ms()):
            log.warning("%s: folder %s is left alone", path, folder)
        return data_dir

    async def _listen_for_shards(self) -> asyncio.AbstractServer:
        # Made by the driver where it runs; brokers on other nodes of a Ray cluster make their own.
        os.makedirs(os.path.dirname(self.spec.socket_path), mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(self.spec.socket_path)
        return await self.loop.create_unix_server(self.shards.accept, self.spec.socket_path)

    async def _listen(self) -> asyncio.AbstractServer:
        try:
            server = await self.loop.create_server(
                self._new_connection,
                self.spec.bind_host,
                self.port,
                backlog=self.config.integer("socket.listen.backlog.size"),
                reuse_address=True,
            )
        except OSError as error:
            raise StartError(
                f"broker {self.spec.broker_id} cannot listen on {self.spec.bind_host}:{self.port} "
                f"({os.strerror(error.errno or 0)}): choose another --port, or 0 for any free one"
            ) from error
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _register(self) -> None:
        await self._ask(
            {
                "type": "hello",
                "broker_id": self.spec.broker_id,
                "epoch": self.controller.epoch,
                "host": self.spec.advertised_host,
                "port": self.spec.advertised_port or self.port,
                "rack": self.config.text("broker.rack"),
                "replica_host": self._replica_host(),
                "replica_port": self._replica_port,
                "intact": self._registered or self.context.data_dir.intact,  # a process does not lose what it wrote
                "pid": os.getpid(),
            }
        )
        self._registered = True
        # The answer comes after the image: without that, we might take ourselves for the leader of what we led once.
        self.controller.heartbeat(self._load())

    def _replica_host(self) -> str:
        """Where other brokers reach us: clients may be told an address that is for them alone."""
        host = self.spec.bind_host
        return self.spec.advertised_host if host in _ANY_HOST else host

    def on_welcome(self, message: dict[str, Any]) -> None:
        """The controller has answered a join or a hello."""
        if self._waiting_message is not None and not self._waiting_message.done():
            self._waiting_message.set_result(message)

    def on_controller_lost(self, link: ControllerLink) -> None:
        """Go on serving while the lease lasts, and find the controller again."""
        if self._waiting_message is not None and not self._waiting_message.done():
            self._waiting_message.set_exception(ConnectionError("the controller hung up"))
        if link is self.controller and self._registered and not self._rejoining and not self._stopping:
            log.warning("the connection to the controller was lost")
            self._rejoining = True
            self._spawn(self._rejoin())

    async def _rejoin(self) -> None:
        while not self._stopping:
            try:
                await self._join_once()
                self.context.controller = self.controller
                await self._register()
            except Exception as error:
                log.info("the controller cannot be reached yet: %s", error)
                await asyncio.sleep(_RECONNECT_SECONDS)
                continue
            if self.controller.connected:
                self._rejoining = False
                self._hang_up_silent()
                self.replicas.follow_again()  # whoever was to stop us after we had handed over may be gone
                return

    def _hang_up_silent(self) -> None:
        if self._silent is not None:
            self._silent.close()
            self._silent = None

    def _spawn(self, work: Any) -> None:
        task = self.loop.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def hand_over(self) -> None:
        """Before a stop: others lead what we lead, and nobody waits for us. Raises OSError, TimeoutError.

        When it fails, we stay what we were.
        """
        self.replicas.stop_following()  # first: a leader that still hears of us proposes us again
        try:
            await self._leave()
        except BaseException:
            self.replicas.follow_again()
            raise
        self.loop.call_later(_LEFT_SECONDS, self.replicas.follow_again)

    async def _leave(self) -> None:
        left: asyncio.Future[str | None] = self.loop.create_future()
        self.controller.call(
            "broker_leaving",
            {"broker_id": self.spec.broker_id},
            lambda result, error: None if left.done() else left.set_result(error),
        )
        error = await asyncio.wait_for(left, _HAND_OVER_SECONDS)
        if error is not None:
            raise ConnectionError(f"broker {self.spec.broker_id} could not hand over what it leads: {error}")

    async def stop(self) -> None:
        """Stop serving and close the logs as after a clean stop."""
        self._stopping = True
        for server in (self._listener, self._relay_listener):
            if server is not None:
                server.close()
        for connection in list(self._connections):
            connection.close()
        self._housekeeper.stop()
        self.shards.close()
        self.replicas.close()
        begun = self.loop.time()
        await self.loop.run_in_executor(None, self.context.data_dir.close)
        log.info("closed the logs in %.1f s", self.loop.time() - begun)
        self.controller.close()  # only now: the end of this connection is the end of this process
        self._hang_up_silent()

    # --- metadata ---

    def apply_image(self, metadata: ClusterMetadata) -> None:
        """Take over a newer image: topics that are gone lose their logs, shards hear of what is theirs."""
        if not hasattr(self, "shards") or self._stopping:
            return
        context = self.context
        if (metadata.controller_epoch, metadata.version) < (
            context.metadata.controller_epoch,
            context.metadata.version,
        ):
            log.warning("an image of a former controller (epoch %d) is ignored", metadata.controller_epoch)
            return
        older, context.metadata = context.metadata, metadata
        before = self.config
        context.config = self.config = _with_dynamic(before, metadata, self.spec.broker_id)
        self._drop_logs(metadata)
        self._lead()
        self.replicas.apply(metadata)
        for name, index in list(context.parked_fetches):
            if older.partition(name, index) != metadata.partition(name, index):
                context.wake(name, index)
        self._configure_logs(older, everywhere=log_config({}, before) != log_config({}, self.config))
        self.shards.note_topics()

    def _configure_logs(self, older: ClusterMetadata, *, everywhere: bool) -> None:
        """Have logs hold to new settings: those of topics whose own have changed, or all of them."""
        context = self.context
        for name, topic in context.metadata.topics.items():
            before = older.topics.get(name)
            if everywhere or (before is not None and before.configs != topic.configs):
                config = context.topic_log_config(name)
                for index in range(len(topic.partitions)):
                    found = context.data_dir.get(name, index)
                    if found is not None:
                        found.config = config

    def _lead(self) -> None:
        """What only we hold is committed: the high watermark is the log's end."""
        for key, found in self.context.data_dir.logs.items():
            partition = self.context.metadata.partition(*key)
            if partition is not None and partition.leader == self.spec.broker_id and len(partition.replicas) == 1:
                found.assign_leader_epoch(partition.leader_epoch)
                if found.advance_high_watermark(found.log_end_offset):  # others had it, too, and were waited for
                    self.replicas.committed(key, found.high_watermark)

    def _drop_logs(self, metadata: ClusterMetadata) -> None:
        """Have logs of deleted topics, and of partitions that were moved away, go, some in each turn.

        At once where they are wanted again.
        """
        logs = self.context.data_dir.logs
        mine = {key for key in [*logs, *self._doomed] if self._holds(metadata, key)}
        back = [key for key in self._doomed if key in mine]
        if back:
            self.loop.run_in_executor(None, remove_folders, self._drop(back))
        idle = not self._doomed
        self._doomed.update((key, None) for key in logs if key not in mine)
        if self._doomed and idle:
            self._spawn(self._drop_doomed())

    def _holds(self, metadata: ClusterMetadata, key: tuple[str, int]) -> bool:
        partition = metadata.partition(*key)
        return partition is not None and self.spec.broker_id in partition.replicas

    async def _drop_doomed(self) -> None:
        while self._doomed and not self._stopping:
            folders = self._drop(list(islice(self._doomed, _DROPS_A_TURN)))
            await self.loop.run_in_executor(None, remove_folders, folders)

    def _drop(self, keys: list[tuple[str, int]]) -> list[Path]:
        folders = []
        for key in keys:
            del self._doomed[key]
            try:
                folders.append(self.context.data_dir.delete(*key))
            except OSError as error:
                log.error("the log of %s-%d cannot be dropped: %s", *key, error)
        return [folder for folder in folders if folder is not None]

    def _want_spares(self, count: int) -> None:
        self.controller.send({"type": "spares", "count": count})

    # --- connections ---

    def _new_connection(self) -> Connection:
        self._next_connection += 1
        return Connection(self, self._next_connection, self.loop.time())

    def on_connect(self, connection: Connection) -> bool:
        """A client has come."""
        taken = {
            "max.connections": len(self._connections),
            "max.connections.per.ip": self._per_address[connection.peer],
        }
        for setting, count in taken.items():
            if count >= self.config.integer(setting):
                log.warning("refusing a connection from %s: %s=%d", connection.peer, setting, count)
                return False
        if connection.transport is not None:
            sock = connection.transport.get_extra_info("socket")
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A client whose machine has vanished holds its place no longer than the system's probes take.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._connections.add(connection)
        self._per_address[connection.peer] += 1
        return True

    def on_disconnect(self, connection: Connection, unanswered: list[Slot]) -> None:
        """A client has gone."""
        if connection in self._connections:  # else it was refused
            self._connections.remove(connection)
            self._per_address[connection.peer] -= 1
            if not self._per_address[connection.peer]:
                del self._per_address[connection.peer]
        self.context.forget(connection)
        self.shards.disconnected(connection, unanswered)

    def _response_bytes_waiting(self) -> int:
        now = self.loop.time()
        if now > self._unread_until:  # once a while: a broker may have thousands of connections
            self._unread = sum(connection.write_buffer_size for connection in self._connections)
            self._unread_until = now + _UNREAD_SECONDS
        return self._unread

    # --- requests ---

    def on_frame(self, connection: Connection, data: bytes, start: int, end: int) -> None:
        """Pass one request to the shard or the handler it is for."""
        self._requests += 1
        connection.last_active = self._last_tick
        api_key, version, correlation_id, length = _HEAD.unpack_from(data, start)
        flexible_from = _RELAYED.get(api_key)
        if flexible_from is None:
            self._handle(connection, data[start:end])
            return
        group = self._group_of(data, start, end, api_key, version, length, version >= flexible_from)
        if group is None:
            self._handle(connection, data[start:end])
        else:
            partition = self.shards.partition_of(group)
            self.shards.relay(connection, partition, data[start:end], version, api_key, correlation_id)

    def _group_of(
        self, data: bytes, start: int, end: int, api_key: int, version: int, length: int, flexible: bool
    ) -> bytes | None:
        """The group id of a group request, which is its first field; None if it names several groups (KIP-709)."""
        first, last = GROUP_VERSIONS[api_key]
        if not first <= version <= last:
            raise WireError(f"{api_name(api_key)} v{version} is not served ({first} to {last} are)")
        if end - start > self._group_request_max_bytes:
            raise WireError(
                f"{api_name(api_key)} of {end - start} bytes exceeds "
                f"coterie.group.request.max.bytes={self._group_request_max_bytes}"
            )
        try:
            at = start + 10 + max(length, 0)
            if flexible:
                at = at + 1 if data[at] == 0 else skip_tags(data, at)
                if api_key == _OFFSET_FETCH and version >= 8:
                    count, at = read_uvarint(data, at)
                    if count != 2:  # a compact array's length is one more than its items
                        return None
                size, at = read_uvarint(data, at)
                size -= 1
            else:
                size = int.from_bytes(data[at : at + 2], "big", signed=True)
                at += 2
        except IndexError as error:
            raise WireError("the request ends within its header") from error
        if size < 0 or at + size > end:
            raise WireError("the group id is null or reaches beyond the request")
        return data[at : at + size]

    def _handle(self, connection: Connection, frame: bytes) -> None:
        header = decode_request_header(frame)
        api_key, version = header.api_key, header.api_version
        if api_key in FAN_OUT:
            first, last = GROUP_VERSIONS[api_key]
            handle: Any = FAN_OUT[api_key]
        elif api_key in HANDLERS:
            entry = HANDLERS[api_key]
            first, last, handle = entry.served_from, entry.last, entry.handle
        else:
            raise WireError(f"{api_name(api_key)} is not served")
        if not first <= version <= last:
            if api_key == API_VERSIONS:
                slot = self._slot(connection, header.api_key, 0, header.correlation_id)
                slot.finish(encode_response(api_versions.unsupported(), 0, header.correlation_id))
                return
            raise WireError(f"{api_name(api_key)} v{version} is not served ({first} to {last} are)")
        message: Any = request_class(api_key).decode(frame, version, header.body_offset)
        silent = api_key == _PRODUCE and message.acks == 0
        slot_or_none = None if silent else self._slot(connection, api_key, version, header.correlation_id)
        request = Request(header, message, connection, slot_or_none)
        try:
            response = handle(self.context, request)
        except Exception:
            log.exception("%s v%d from %s failed", api_name(api_key), version, connection.peer)
            if api_key in FAN_OUT:
                connection.close("the request could not be handled")
                return
            response = error_response(message, version, ErrorCode.UNKNOWN_SERVER_ERROR)
        if response is not None and slot_or_none is not None and slot_or_none.answer is None:
            slot_or_none.finish(encode_response(response, version, header.correlation_id))

    def _slot(self, connection: Connection, api_key: int, version: int, correlation_id: int) -> Slot:
        return connection.slots.open(0, api_key, version, correlation_id)

    # --- housekeeping ---

    def _tick(self) -> None:
        now = self.loop.time()
        self._longest_turn = max(self._longest_turn, now - self._last_tick - _TICK_SECONDS)
        self._last_tick = now
        if self._stopping:
            if self.controller.connected:  # the logs are being closed: who is silent meanwhile is killed
                self.controller.heartbeat(self._load())
                self.loop.call_later(_TICK_SECONDS, self._tick)
            return
        self._ask_controller()
        self.shards.tick()
        self.replicas.tick()
        if self._idle_seconds > 0:
            for connection in list(self._connections):
                if now - connection.last_active > self._idle_seconds and not len(connection.slots):
                    connection.close()
        self.loop.call_later(_TICK_SECONDS, self._tick)

    def _ask_controller(self) -> None:
        if self._rejoining:
            return
        if self.controller.unanswered * _TICK_SECONDS > self._lease_seconds:
            log.warning("the controller has not answered for a lease: it is looked for")
            self._silent = self.controller.give_up()  # now other brokers can confirm us
        else:
            self.controller.heartbeat(self._load())

    def _load(self) -> dict[str, Any]:
        return {
            "connections": len(self._connections),
            "requests": self._requests,
            "longest_turn_ms": round(self._longest_turn * 1000, 1),
            "logs": len(self.context.data_dir.logs),
        }

    def status(self) -> dict[str, Any]:
        """This broker and its shards, for `coterie status`."""
        return {
            "broker_id": self.spec.broker_id,
            "pid": os.getpid(),
            "port": self.port,
            "load": self._load(),
            "shards": [asdict(row) for row in self.shards.status()],
        }


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _with_dynamic(config: BrokerConfig, metadata: ClusterMetadata, broker_id: int) -> BrokerConfig:
    changes: dict[str, str | None] = dict.fromkeys(config.dynamic)
    changes.update(metadata.broker_configs.get("", {}))
    changes.update(metadata.broker_configs.get(str(broker_id), {}))
    return config.with_dynamic(changes) if changes else config
