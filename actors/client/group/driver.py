"""Drives the membership machine: sends its requests, sets its timer, commits and fetches offsets.

The machine is used by the user's thread and by the event loop, always under the lock of `changes`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from actors.client.errors import HeartbeatFailedError, KafkaError, KafkaTimeoutError
from actors.client.group.effects import Drop, Effect, Send, To
from actors.client.group.member import Member
from actors.client.group.offsets import Commit, Fetched, Offsets, fetch_request, judge_commit, judge_fetch, make_commit
from actors.client.group.topic_ids import Divided, IdOf, divide, known_ids
from actors.client.net.changes import Changes
from actors.client.net.network import Network
from actors.client.records import Node, OffsetAndMetadata, TopicPartition
from actors.wire.errors import ErrorCode as Code
from actors.wire.messages import ApiMessage, OffsetCommitResponse

log = logging.getLogger(__name__)

_UNKNOWN = (Code.UNKNOWN_TOPIC_ID, Code.UNKNOWN_TOPIC_OR_PARTITION)


def _failed(error: Exception) -> HeartbeatFailedError:
    """Log the error, and make it the cause of one that the user's thread can raise."""
    log.error("the consumer's background thread failed", exc_info=error)
    failure = HeartbeatFailedError(f"the consumer's background thread failed: {error!r}")
    failure.__cause__ = error
    return failure


class Driver:
    """`changes` has the lock, and is told whenever the user's thread may have something to do.

    `id_of` knows to which topic the position in a partition belongs.
    """

    def __init__(self, member: Member, network: Network, changes: Changes, id_of: IdOf) -> None:
        self.member = member
        self.network = network
        self._changes = changes
        self._id_of = id_of
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._committing = asyncio.Lock()
        self._coordinators = network.own_connections(self._on_lost)

    def pump(self) -> None:
        """Carry out the machine's effects. Called under the lock, from any thread."""
        effects = self.member.take_effects()
        if effects:
            self.network.soon(self._perform, effects)

    def tell(self) -> None:
        """Wake the user's thread and whoever waits on the loop: something has changed. Called on the loop."""
        self._changes.tell()
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    # --- on the loop ----------------------------------------------------------------------------------------------

    def _perform(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.network.loop.create_task(self._send(effect))
            elif isinstance(effect, Drop):
                self._coordinators.drop(effect.node, "this broker is not the coordinator any more")
            else:
                self.network.refresh()
        self._arm()

    async def _send(self, send: Send) -> None:
        try:
            response = await self._ask(
                send.node,
                send.request,
                over_own=send.to is To.COORDINATOR,
                timeout_ms=send.timeout_ms,
                min_version=send.min_version,
            )
        except Exception as error:  # of a bug, too: the machine waits for what comes of each request
            failure = error if isinstance(error, KafkaError) else _failed(error)
            with self._surfacing():
                self.member.on_failure(send.id, failure, self.network.now_ms())
        else:
            with self._surfacing():
                self.member.on_response(send.id, response, self.network.now_ms())
        self.tell()

    async def _ask(self, node: Node | None, request: ApiMessage, *, over_own: bool, **options: Any) -> Any:
        """The answer of a node; with `over_own` over the group's own connection to it."""
        if over_own and node is not None:
            return await self._coordinators.ask(node, request, **options)
        return await self.network.ask(node, request, **options)

    @contextlib.contextmanager
    def _surfacing(self) -> Iterator[None]:
        """Use the machine under the lock.

        An error that it raises is raised by the next poll, because here nobody could.
        """
        with self._changes.lock:
            try:
                yield
            except Exception as error:  # of a bug, or of a user's assignor
                self.member.fail(_failed(error), self.network.now_ms())
            self._perform(self.member.take_effects())

    def on_metadata(self) -> None:
        with self._surfacing():
            self.member.on_metadata(self.network.cluster.view(), self.network.now_ms())
        self.tell()

    def _on_lost(self, node: Node) -> None:
        with self._surfacing():
            self.member.coordinator_lost(node, self.network.now_ms())
        self.tell()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.member.next_deadline()
        if deadline is not None:
            delay_ms = max(0, deadline - self.network.now_ms())
            self._timer = self.network.loop.call_later(delay_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        with self._surfacing():
            self.member.on_time(self.network.now_ms())

    async def _coordinator(self, deadline_ms: int) -> Any:
        """The coordinator, looked up if it is not known. Raises KafkaTimeoutError, or the error of the lookup."""
        member = self.member
        while True:
            with self._changes.lock:
                error = member.lookup.take_error()
                if error is not None:
                    raise error
                if member.coordinator is not None:
                    return member.coordinator
                member.find_coordinator(self.network.now_ms())
                again = member.lookup.next_ms
                self._perform(member.take_effects())
            await self._wait(min(deadline_ms, again or deadline_ms), deadline_ms)

    async def _wait(self, until_ms: int, deadline_ms: int) -> None:
        left = deadline_ms - self.network.now_ms()
        if left <= 0:
            raise self._not_in_time()
        waiter: asyncio.Future[None] = self.network.loop.create_future()
        self._waiters.append(waiter)
        await asyncio.wait([waiter], timeout=max(until_ms - self.network.now_ms(), 1) / 1000)

    def _not_in_time(self) -> KafkaTimeoutError:
        why = self.network.outage.because()
        return KafkaTimeoutError(f"the coordinator of group {self.member.group_id} was not found in time{why}")

    # --- offsets --------------------------------------------------------------------------------------------------

    def make_commit(self, offsets: Offsets) -> Commit:
        """A commit under the present generation. Called under the lock. Raises as `offsets.make_commit` does."""
        divided = self._divided(offsets)
        commit = make_commit(self.member, divided.offsets, self.network.now_ms(), divided.ids)
        return replace(commit, withheld=divided.withheld)

    def committable(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """These offsets without those of topics that do not exist any more."""
        return dict(self._divided(offsets).offsets)

    def _divided(self, offsets: Offsets) -> Divided:
        return divide(offsets, self._id_of, self.network.cluster)

    async def commit(self, commit: Commit, offsets: Offsets, timeout_ms: int, *, retry: bool) -> None:
        """Send a commit. With `retry` it is repeated while the error is retriable. Raises the last error.

        Withheld offsets are an error, too, once the rest is committed.
        """
        deadline = self.network.now_ms() + timeout_ms
        retries = self.network.retries(deadline)
        while True:
            error = await self._commit_once(commit, deadline) if commit.request.topics else None
            error = error or commit.withheld
            if error is None:
                return
            if not (retry and error.retriable) or not await retries.pause():
                raise error
            with self._changes.lock:
                commit = self.make_commit(offsets)

    async def _commit_once(self, commit: Commit, deadline_ms: int) -> KafkaError | None:
        async with self._turn_to_commit(deadline_ms):
            node = await self._coordinator(deadline_ms)
            with self._changes.lock:
                commit = commit.sent(node, self.member.sends_as(commit.generation))
            try:
                sent = await self._send_commit(node, commit)
            except KafkaError as error:
                return self._not_committed(node, error)
        try:
            response = await sent
        except KafkaError as error:
            return self._not_committed(node, error)
        with self._changes.lock:
            result = judge_commit(self.member, commit, response, self.network.now_ms())
            self._perform(self.member.take_effects())
        if result is not None and result.code in _UNKNOWN:
            self.network.refresh()
        return result

    @contextlib.asynccontextmanager
    async def _turn_to_commit(self, deadline_ms: int) -> AsyncIterator[None]:
        """Commits are sent in the order in which they were made: an older one that came later would undo a newer."""
        try:
            async with asyncio.timeout(max(deadline_ms - self.network.now_ms(), 1) / 1000):
                await self._committing.acquire()
        except TimeoutError:
            raise self._not_in_time() from None
        try:
            yield
        finally:
            self._committing.release()

    async def _send_commit(self, node: Node, commit: Commit) -> Awaitable[OffsetCommitResponse]:
        connection = await self._coordinators.connection(node)
        return connection.call(
            commit.request,
            self.network.settings.request_timeout_ms,
            commit.min_version,
            max_version=commit.max_version,
        )

    def _not_committed(self, node: Node, error: KafkaError) -> KafkaError:
        if error.retriable:
            self._lost(node)
        return error

    def _lost(self, node: Any) -> None:
        with self._changes.lock:
            self.member.coordinator_lost(node, self.network.now_ms(), drop=True)
            self._perform(self.member.take_effects())

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout_ms: int
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """The group's committed offsets; None where there is none. Raises the last error.

        While a rebalance waits for others, they are asked for aside: a member keeps its partitions, and may have got
        more just before (KIP-429), so that it reads them meanwhile.
        """
        wanted = list(partitions)
        deadline = self.network.now_ms() + timeout_ms
        retries = self.network.retries(deadline)
        while True:
            fetched = await self._fetch_committed(wanted, deadline)
            error = fetched.error
            if error is None:
                return fetched.offsets
            if not (error.retriable or fetched.again) or not await retries.pause():
                raise error

    async def _fetch_committed(self, wanted: list[TopicPartition], deadline_ms: int) -> Fetched:
        """Ask once. `again` of the result: the place that was asked for is not the member's any more."""
        node = await self._coordinator(deadline_ms)
        ids = known_ids(wanted, self.network.cluster)
        with self._changes.lock:
            place, lowest = self.member.fetches_as(), self.member.commits_from
            aside = self.member.awaits_others
        request = fetch_request(self.member.group_id, wanted, ids, place)
        try:
            response = await self._ask(
                node,
                request,
                over_own=not aside,
                min_version=lowest if place.member_id else 0,
                max_version=request.max_version if ids else None,
            )
        except KafkaError as failure:
            if failure.retriable and not aside:
                self._lost(node)
            return Fetched({}, failure)
        fetched = judge_fetch(self.member.group_id, response, ids)
        if fetched.lost:
            self._lost(node)
        elif fetched.error is not None and fetched.error.code in _UNKNOWN:
            self.network.refresh()
        return replace(fetched, again=fetched.again and bool(place.member_id))
