"""The delivery of a piece of work: tries, pauses between them, and what becomes of a record that keeps failing.

`Delivery.steps` has no thread and does no I/O: it yields what is to be done next, and is told how it went. `deliver`
and `deliver_async` do it, for a thread and for an event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias

from actors.members.pools.handling.context import Context, StopSignal, context_of
from actors.members.pools.handling.handler import Handler
from actors.members.pools.handling.output import Writer
from actors.members.pools.handling.progress import Progress
from actors.members.pools.handling.running import Running
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.handling.values import Values
from actors.members.pools.handling.work import Work

log = logging.getLogger(__name__)

_LOOK_AGAIN_SECONDS = 0.1


class Outcome(Enum):
    """The outcome of a piece of work."""

    HANDLED = auto()
    SET_ASIDE = auto()
    """The dead-letter topic has it."""
    TAKE_APART = auto()
    """A batch that keeps failing: its records follow one by one, to find the bad one."""
    LEFT = auto()
    """It was to stop in the meantime: the records come again, to whoever owns them then."""


@dataclass(frozen=True, slots=True)
class Try:
    """Call the handler, and send what it produced. The answer is None, or the exception."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait, or until it is to stop."""

    seconds: float


@dataclass(frozen=True, slots=True)
class SetAside:
    """Write a dead letter. An exception ends the delivery."""

    error: Exception


Step: TypeAlias = Try | Pause | SetAside
Steps: TypeAlias = Generator[Step, Exception | None, Outcome]


class Delivery:
    """Hands work over to the handler of a member. `sleep(seconds)` is a test's; otherwise a stop ends a pause."""

    def __init__(
        self,
        spec: MemberSpec,
        handler: Handler,
        values: Values,
        writer: Writer,
        running: Running,
        progress: Progress,
        sleep: Callable[[float], Any] | None = None,
    ) -> None:
        self._spec = spec
        self.handler = handler
        self._values = values
        self._writer = writer
        self._running = running
        self._progress = progress
        self._sleep = sleep

    def steps(self, work: Work, stop: StopSignal) -> Steps:
        """Yield what is to be done with the work, step by step. Returns its outcome."""
        tries = self._spec.max_retries + 1
        for attempt in range(1, tries + 1):
            failure = yield Try(attempt)
            if failure is None:
                self._progress.end(work)
                return Outcome.HANDLED
            _log_failure(work, attempt, tries, failure)
            if attempt < tries:
                yield Pause(self._spec.retry_backoff_ms * 2 ** (attempt - 1) / 1000)
            if stop.is_set():
                return Outcome.LEFT
        if len(work) > 1:
            return Outcome.TAKE_APART
        assert failure is not None
        yield SetAside(failure)
        self._progress.end(work, set_aside=True)
        return Outcome.SET_ASIDE

    def set_aside(self, work: Work, error: Exception) -> Outcome:
        """Write a dead letter of a record that is not handled at all. Raises as `deliver`."""
        self._writer.dead_letter(work, error)
        self._progress.end(work, set_aside=True)
        return Outcome.SET_ASIDE

    # --- in a thread ---

    def deliver(self, work: Work, stop: StopSignal, before_pause: Callable[[], None] | None = None) -> Outcome:
        """Do the steps in this thread. Raises HandlerFailedError, and what is no Exception."""
        steps, answer = self.steps(work, stop), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if before_pause is not None and isinstance(step, Pause):
                before_pause()
            answer = self._do(step, work, stop)

    def _do(self, step: Step, work: Work, stop: StopSignal) -> Exception | None:
        match step:
            case Try(attempt):
                return self._try(work, attempt, stop)
            case Pause(seconds):
                (self._sleep or stop.wait)(seconds)
            case SetAside(error):
                self._writer.dead_letter(work, error)
        return None

    def _try(self, work: Work, attempt: int, stop: StopSignal) -> Exception | None:
        self._running.begin(work)
        try:
            context = self._context(work, attempt, stop)
            self.handler(self._argument(work), context)
            if context is not None and (outputs := context.close()):
                work.sent = self._writer.send(outputs)
        except Exception as error:  # the handler is the user's
            return error
        finally:
            self._running.end(work)
        return None

    # --- on an event loop ---

    async def deliver_async(self, work: Work, stop: StopSignal) -> Outcome:
        """Do the steps on the handler's loop. Raises as `deliver`, and CancelledError."""
        steps, answer = self.steps(work, stop), None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = await self._do_async(step, work, stop)

    async def _do_async(self, step: Step, work: Work, stop: StopSignal) -> Exception | None:
        match step:
            case Try(attempt):
                return await self._try_async(work, attempt, stop)
            case Pause(seconds):
                await _paused(seconds, stop)
            case SetAside(error):
                await asyncio.to_thread(self._writer.dead_letter, work, error)
        return None

    async def _try_async(self, work: Work, attempt: int, stop: StopSignal) -> Exception | None:
        self._running.begin(work)
        try:
            context = self._context(work, attempt, stop)
            await self.handler.awaited(self._argument(work), context)
            if context is not None and (outputs := context.close()):
                work.sent = await asyncio.to_thread(self._writer.send, outputs)  # it may wait for the brokers
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return RuntimeError(f"the handler was cancelled from within: {error!r}")
        except Exception as error:  # the handler is the user's
            return error
        finally:
            self._running.end(work)
        return None

    # --- what the handler gets ---

    def _context(self, work: Work, attempt: int, stop: StopSignal) -> Context | None:
        if not self.handler.wants_context:
            return None
        return context_of(work, attempt, stop, of_batch=self._spec.batch_format != "record")

    def _argument(self, work: Work) -> Any:
        """The argument of the handler. Raises SerializationError if a deserializer fails."""
        records = self._values.of(work.records)
        return records[0] if self._spec.batch_format == "record" else records


async def _paused(seconds: float, stop: StopSignal) -> None:
    while seconds > 0 and not stop.is_set():
        await asyncio.sleep(min(seconds, _LOOK_AGAIN_SECONDS))
        seconds -= _LOOK_AGAIN_SECONDS


def _log_failure(work: Work, attempt: int, tries: int, failure: Exception) -> None:
    log.error(
        "the handler failed at %s-%d offset %d (attempt %d of %d)",
        *work.partition,
        work.first,
        attempt,
        tries,
        exc_info=failure,
    )
