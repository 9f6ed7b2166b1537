"""The process of a coordinator's partition: a loop that drives one shard over the relay to its broker.

The shard's kind says what it coordinates (`actors.coordinator_kinds`). The process keeps no files. A spare waits until
it is told what to host. When the broker closes the connection, the process forgets everything and offers itself to the
broker's successor, or to another broker of its machine. No Ray here.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, Unpack

from actors.coordinator.shard import ShardState
from actors.coordinator.turn import Now
from actors.coordinator_kinds.kind import CoordinatorKind, Hosted, HostedShard, Surroundings
from actors.coordinator_kinds.table import KINDS
from actors.links.relay import (
    OFFSETS,
    PAYLOADS,
    ChangedLevels,
    Figures,
    Greeting,
    Kind,
    Payload,
    RelayProtocol,
    packed_range,
)
from actors.links.versions import OWN, UNTOLD
from actors.runtime.environment import REAL, Environment, new_uuid
from actors.runtime.liveness import SharedClock
from actors.runtime.log_levels import THIS_PROCESS, LogLevels
from actors.runtime.logs import Fields, at

log = logging.getLogger(__name__)

T = TypeVar("T")

_READ_SECONDS = 0.001
_WORK_MS = 30_000  # work outside the loop that takes longer is broken off
_FIGURES_SECONDS = 1.0  # the greatest age of the figures that a broker is sent

# An enum's members cost more to look up.
_REQUEST, _APPENDED, _HIGH_WATERMARK = int(Kind.REQUEST), int(Kind.APPENDED), int(Kind.HIGH_WATERMARK)
_KINDS = frozenset(map(int, Kind))


class ShardProcess:
    """One connection to a broker and, when the process hosts a partition, one shard.

    `kinds`: what it can host. It hosts the first one if the broker does not say.
    """

    def __init__(
        self,
        socket_path: str,
        name: str,
        code_version: str,
        environment: Environment = REAL,
        log_levels: LogLevels = THIS_PROCESS,
        kinds: Sequence[CoordinatorKind] = KINDS,
    ) -> None:
        self._path = socket_path
        self._name = name
        self._code_version = code_version
        self._environment = environment
        self._collector = environment.collector
        self._log_levels = log_levels
        self._monotonic_ms, self._wall_ms = environment.clock.monotonic_ms, environment.clock.wall_ms
        self._loop = asyncio.get_running_loop()
        self._protocol: RelayProtocol | None = None
        self._lost = asyncio.Event()
        self._ended = False
        self._kinds = {kind.name: kind for kind in kinds}
        self._kind = self._kind_untold = kinds[0]
        self._shard: HostedShard | None = None
        self._hosted: Hosted | None = None
        self._partition = -1
        self._epoch = -1
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0
        self._turn_time: Now | None = None
        self._clock = SharedClock(self._monotonic_ms())
        self._requests = 0  # of partitions that were hosted before
        self._loading_since_ms = 0
        self._said_active = False
        self._figures = Figures()
        self._figures_due = 0.0
        # One alone: threads take the interpreter's lock from the loop, which serves all other clients meanwhile.
        self._helper = ThreadPoolExecutor(1, "work")

    @property
    def partition(self) -> int:
        """The partition that is hosted; -1 if none is."""
        return self._partition

    @property
    def shard(self) -> HostedShard | None:
        """The shard of that partition."""
        return self._shard

    async def run(self, orphan_seconds: float = 15.0) -> None:
        """Serve until no broker has answered for `orphan_seconds`, or one says that it is enough.

        If this is cancelled, the link ends at once, as by the death of the process.
        """
        try:
            await self._serve(orphan_seconds)
        except asyncio.CancelledError:
            if self._protocol is not None:
                self._protocol.close()
            raise
        finally:
            self._forget()
            self._helper.shutdown(wait=False, cancel_futures=True)

    async def _serve(self, orphan_seconds: float) -> None:
        deadline = self._loop.time() + orphan_seconds
        while self._loop.time() < deadline and not self._ended:
            self._lost.clear()
            if not await self._connect(_others(self._path, self._environment.kernel.pid())):
                await asyncio.sleep(0.05)
                continue
            self._say_hello()
            await self._lost.wait()
            deadline = self._loop.time() + orphan_seconds
        log.info("no broker needs this shard process: it ends")

    async def _connect(self, others: list[str]) -> bool:
        """Connect to our broker or, if it is gone, to another one of this machine. Returns True if that succeeded.

        The broker that takes over its partitions needs processes.
        """
        for path in (self._path, *others):
            with contextlib.suppress(OSError):
                await self._loop.create_unix_connection(self._new_protocol, path)
                return True
        return False

    def _new_protocol(self) -> RelayProtocol:
        self._protocol = RelayProtocol(
            self._loop, self._on_message, self._on_turn, self._on_lost, self._environment.kernel.is_ours
        )
        return self._protocol

    def _say_hello(self) -> None:
        self._kind = self._kind_untold
        greeting = Greeting(self._environment.kernel.pid(), self._code_version, self._name)
        self._say(Kind.HELLO, greeting, packed_range(OWN))

    def _say(self, kind: Kind, payload: Payload, a: int = 0, b: int = 0) -> None:
        if self._protocol is not None:
            self._protocol.say(kind, payload, a, b)

    def _send(self, kind: int, a: int = 0, b: int = 0, payload: bytes = b"") -> None:
        if self._protocol is not None:
            self._protocol.send(kind, a, b, payload)

    def _now(self) -> Now:
        """The time of this turn of the loop, the same for all that came in together."""
        now = self._turn_time
        if now is None:
            now = self._turn_time = Now(self._clock.now_ms(self._monotonic_ms()), self._wall_ms())
        return now

    # --- the relay ---

    def _on_lost(self, protocol: RelayProtocol) -> None:
        self._protocol = None
        self._log_levels.take_over({})
        self._forget()
        self._lost.set()

    def _forget(self) -> None:
        if self._hosted is not None:
            self._requests += self._hosted.service.requests
        self._shard = self._hosted = None
        self._partition = -1
        self._said_active = False
        self._figures, self._figures_due = Figures(), 0.0
        self._collector.keep_nothing()  # the loaded state is garbage now
        self._collector.go_on()  # a load may have been broken off
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_message(self, protocol: RelayProtocol, kind: int, a: int, b: int, payload: bytes) -> None:
        if self._turn_time is None:
            self._clock.heard(self._monotonic_ms())
        if kind == _REQUEST:
            hosted = self._hosted
            if hosted is None:
                return  # the broker has taken the partition away, and answers for us
            try:
                hosted.service.request(a, b, payload, self._turn_time or self._now())
            except Exception:  # a bug: the shard is loaded again
                # The request's content is a client's, and is not logged.
                peer = hosted.service.peer(a) or "?"
                log.exception("a request of %s failed: %s", peer, _kind(payload), extra=self._here(peer=peer))
                raise
        elif kind == _APPENDED:
            base_offset, next_offset = OFFSETS.unpack(payload)
            self._with_shard(lambda shard: shard.appended(b, base_offset, next_offset, self._now()))
        elif kind == _HIGH_WATERMARK:
            self._with_shard(lambda shard: shard.high_watermark(b, self._now()))
            if not self._said_active and self._hosted is not None:
                self._say_if_active(self._hosted)
        elif kind == Kind.PING:
            self._pong()
        elif kind == Kind.REFUSED:
            self._with_shard(lambda shard: shard.append_refused(b, a, self._now()))
        elif kind == Kind.LOAD:
            self._load(payload)
        elif kind == Kind.LOADED:
            self._loaded(b)
        elif kind == Kind.HOST:
            self._host(protocol, payload.decode())
        elif kind == Kind.BECOME:
            if protocol.version is not None or protocol.meet(UNTOLD):  # an old broker does not say
                self._become(a, b, payload)
        elif kind == Kind.LOG_LEVELS:
            self._log_levels.take_over(PAYLOADS.read(ChangedLevels, payload).levels)
        elif kind == Kind.END:
            self._ended = True
            protocol.close()
        elif kind == Kind.RESIGN:
            self._say_last_figures()
            self._forget()
            self._say_hello()  # after all that was said for the partition
        elif kind == Kind.VERSIONS:
            self._ended = not protocol.told(payload)
        elif self._hosted is not None and (tell := self._hosted.service.handlers.get(kind)) is not None:
            tell(a, b, payload, self._now())
        elif kind not in _KINDS:
            protocol.refuse(kind)

    def _with_shard(self, act: Any) -> None:
        if self._shard is not None:
            act(self._shard)

    def _on_turn(self, protocol: RelayProtocol) -> None:
        self._turn()

    def _host(self, protocol: RelayProtocol, name: str) -> None:
        if name in self._kinds:
            self._kind = self._kinds[name]
        else:
            log.error("this shard process knows no coordinators of %s: it ends", name)
            self._ended = True
            protocol.close()

    def _become(self, partition: int, epoch: int, assignment: bytes) -> None:
        self._forget()
        self._partition, self._epoch = partition, epoch
        around = Surroundings(
            partition,
            self._send,
            self._say,
            self._here,
            lambda: str(new_uuid(self._environment.chance)),
            self._elsewhere,
        )
        self._hosted = self._kind.host(assignment, around)
        self._shard = self._hosted.shard
        self._loading_since_ms = self._now().monotonic_ms
        self._shard.start_loading(epoch, self._now())
        self._collector.pause()  # loading makes millions of objects, none of them garbage

    def _load(self, piece: bytes) -> None:
        if self._shard is not None:
            self._kind.codec.replay(self._shard, piece)
            self._send(Kind.LOAD_MORE, self._partition)

    def _loaded(self, log_end_offset: int) -> None:
        if self._hosted is None:
            return
        shard = self._hosted.shard
        self._turn_time = None  # loading took its time
        shard.finish_loading(self._now(), log_end_offset, 0)
        self._collector.go_on()
        self._collector.keep()  # the loaded state stays
        if shard.state is ShardState.FAILED:
            log.error("%s cannot be loaded: %s", self._where, shard.failure, extra=self._here())
        self._say_if_active(self._hosted)

    def _say_if_active(self, hosted: Hosted) -> None:
        # One that could not be loaded serves, too: it says NOT_COORDINATOR to everything.
        state = hosted.shard.state
        if not self._said_active and state in (ShardState.ACTIVE, ShardState.FAILED):
            self._said_active = True
            if state is ShardState.ACTIVE:
                took = self._now().monotonic_ms - self._loading_since_ms
                log.info("%s: loaded in %d ms", self._where, took, extra=self._here())
            hosted.service.loaded(self._now())
            self._send(Kind.ACTIVE, self._partition)

    def _pong(self) -> None:
        requests = self._requests
        if self._hosted is not None:
            service = self._hosted.service
            service.send_news(self._now())
            requests += service.requests
            if self._loop.time() >= self._figures_due:
                self._figures = service.figures()  # it may have a hundred thousand groups to look at
                self._figures_due = self._loop.time() + _FIGURES_SECONDS
        self._say(Kind.PONG, replace(self._figures, requests=requests))

    def _say_last_figures(self) -> None:
        """Before the partition is given up: what was counted since the last ping."""
        self._figures_due = 0.0
        self._pong()

    @property
    def _where(self) -> str:
        return f"{self._kind.partition_name} {self._partition}"

    def _here(self, **more: Unpack[Fields]) -> dict[str, Fields]:
        """The `extra` of a log call in which the partition has a part."""
        return at(self._kind.topic, self._partition, **(Fields(epoch=self._epoch) | more))

    # --- work outside the loop ---

    def _elsewhere(self, work: Callable[[Callable[[], bool]], T], done: Callable[[T | None, Now], None]) -> None:
        running = self._loop.run_in_executor(self._helper, self._in_time, self._hosted, work)
        running.add_done_callback(partial(self._came_back, self._hosted, done))

    def _in_time(self, hosted: Hosted | None, work: Callable[[Callable[[], bool]], T]) -> T:
        """In the helper's thread. Work that waits there for another partition is over at once."""
        end_ms = self._monotonic_ms() + _WORK_MS
        return work(lambda: hosted is not self._hosted or self._monotonic_ms() >= end_ms)

    def _came_back(
        self, hosted: Hosted | None, done: Callable[[T | None, Now], None], ended: asyncio.Future[T]
    ) -> None:
        """Work has ended. Nobody asks for it any more if another partition is hosted by now."""
        if ended.cancelled():
            return
        error = ended.exception()
        if error is not None:
            log.error("work of %s has failed", self._where, exc_info=error, extra=self._here())
        if hosted is self._hosted and hosted is not None:
            done(None if error is not None else ended.result(), self._now())
            self._turn()

    # --- a turn ---

    def _turn(self) -> None:
        """End a turn, when all that was read has been handled: send answers and records, and set the timer."""
        hosted = self._hosted
        if hosted is None:
            self._turn_time = None
            return
        shard = hosted.shard
        self._flush(hosted)
        self._turn_time = None
        if shard.needs_reload and self._protocol is not None:
            text = "%s: its log and its state disagree, loading again"
            log.error(text, self._where, extra=self._here())
            self._protocol.flush()
            self._protocol.close()  # the broker gives the partition to the next process, this one comes back as a spare
            return
        self._arm(shard)

    def _flush(self, hosted: Hosted) -> None:
        hosted.service.send_answers(self._now())
        while (append := hosted.shard.take_records()) is not None:
            batch = self._kind.codec.batch(append, self._wall_ms(), hosted.compression)
            self._send(Kind.APPEND, self._partition, append.batch_id, batch)

    def _arm(self, shard: HostedShard) -> None:
        due = shard.next_deadline()
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due = due
        delay = max(due - self._clock.now_ms(self._monotonic_ms()), 1) / 1000
        self._timer = self._loop.call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        """A deadline may have come. A second timer follows, so that input that is here already is read first."""
        self._timer = self._loop.call_later(_READ_SECONDS, self._fire)

    def _fire(self) -> None:
        shard = self._shard
        self._timer = self._turn_time = None
        if shard is not None:
            shard.on_time(self._now())
            self._turn()


def _kind(frame: bytes) -> str:
    """The request in a frame, without anything that a client wrote into it."""
    key, version = (int.from_bytes(frame[at : at + 2], "big") for at in (0, 2))
    return f"API key {key}, version {version}, {len(frame)} bytes"


def _others(path: str, pid: int) -> list[str]:
    """The other sockets beside a broker's. Each process begins with another of them, so that they spread."""
    own = Path(path)
    found = sorted(str(each) for each in own.parent.glob("*") if each != own)
    first = pid % len(found) if found else 0
    return found[first:] + found[:first]
