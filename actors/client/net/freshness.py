"""Keeps a client's metadata fresh. Runs on the event loop; `holding` may be used in any thread."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator

from actors.client.errors import AuthenticationError, KafkaError
from actors.client.net.backoff import Backoff
from actors.client.net.metadata import ClusterMetadata, metadata_request
from actors.client.net.outage import Outage
from actors.client.net.peers import again
from actors.client.net.settings import NetworkSettings
from actors.wire.messages import MetadataRequest, MetadataResponse

log = logging.getLogger(__name__)

_PAUSE_S = 0.02
"""One request at a time, and only a few a second, however often somebody asks."""


class MetadataUser:
    """Whoever a network keeps metadata fresh for. This one needs none."""

    def wanted(self) -> frozenset[str] | None:
        """The topics whose metadata is needed, beside those that are held; None: all."""
        return frozenset()

    def on_metadata(self) -> None:
        """There is new metadata."""

    def on_denied(self, error: AuthenticationError) -> None:
        """No broker lets this client in to ask for metadata. It is asked for again all the same."""


NOBODY = MetadataUser()


class Freshness:
    """Asks for metadata when it is old, or when somebody wants it. `cluster` and `outage` are written here alone.

    `ask` sends a request to any broker, and `why` has the reason why none has answered.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        backoff: Backoff,
        now_ms: Callable[[], int],
        ask: Callable[[MetadataRequest], Awaitable[MetadataResponse]],
        why: Callable[[Exception], str],
    ) -> None:
        self.cluster = ClusterMetadata()
        self.outage = Outage()
        self._settings = settings
        self._backoff = backoff
        self._now_ms = now_ms
        self._ask = ask
        self._why = why
        self._needed = asyncio.Event()
        self._waiting: list[asyncio.Future[None]] = []
        self._held: dict[object, frozenset[str]] = {}
        self._failures = 0

    @contextlib.contextmanager
    def holding(self, topics: Iterable[str]) -> Iterator[None]:
        """Within the block, metadata is asked for these topics, too, so that somebody can wait for their leaders."""
        mine = object()
        self._held[mine] = frozenset(topics)
        try:
            yield
        finally:
            del self._held[mine]

    def refresh(self) -> None:
        """Have metadata asked for soon."""
        self._needed.set()

    async def refreshed(self) -> None:
        """Wait for an update that was asked for after this call."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._needed.set()
        await done

    async def keep(self, user: MetadataUser) -> None:
        """Keep the metadata that `user` wants fresh, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._settings.metadata_max_age_ms / 1000):
                    await self._needed.wait()
            self._needed.clear()
            await self._update(user)

    async def _update(self, user: MetadataUser) -> None:
        waiting, self._waiting = self._waiting, []
        self.outage.asked(self._now_ms())
        wanted = user.wanted()
        if wanted is not None:
            wanted = wanted.union(*self._held.values())
        creates = self._settings.allow_auto_create_topics
        create = creates and (bool(self._held) or not self._settings.create_only_held)
        try:
            response = await self._ask(metadata_request(wanted, create=create))
        except Exception as error:  # of a bug, too: without this task the client never learns of a new leader
            self._log(error)
            self.outage.failed(self._why(error))
            if isinstance(error, AuthenticationError):
                self._denied(error, waiting)
                user.on_denied(error)
            else:
                self._waiting += waiting
            await asyncio.sleep(self._next_pause_s())
            self._needed.set()
            return
        self.outage.over()
        try:
            self.cluster.update(response, wanted)
            user.on_metadata()
        except Exception:  # a bug: without this task nobody would hear of metadata again
            log.exception("metadata could not be taken over")
        for done in waiting:
            if not done.done():
                done.set_result(None)
        if self.cluster.incomplete():
            asyncio.get_running_loop().call_later(self._next_pause_s(), self._needed.set)
        else:
            self._failures = 0
        await asyncio.sleep(_PAUSE_S)

    def _log(self, error: Exception) -> None:
        may_pass = isinstance(error, AuthenticationError) or (isinstance(error, KafkaError) and error.retriable)
        log.log(logging.DEBUG if may_pass else logging.WARNING, "metadata: %r", error)

    def _denied(self, error: AuthenticationError, waiting: list[asyncio.Future[None]]) -> None:
        """Nobody waits for metadata that we are not given. The task goes on, for credentials may come back."""
        for each in waiting:
            if not each.done():
                each.set_exception(again(error))

    def _next_pause_s(self) -> float:
        self._failures += 1
        return self._backoff.delay_ms(self._failures) / 1000
