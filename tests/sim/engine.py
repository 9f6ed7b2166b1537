"""Virtual time, processes, and an event loop for each: asyncio's interface of a loop, without a clock or a thread.

A process can be killed (nothing of it runs any more), stopped, and starved (due callbacks wait until it goes on, or is
fed). Sockets are in network.py.
"""

from __future__ import annotations

import asyncio
import random
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from tests.sim.disks import Disk
    from tests.sim.network import Network

MS = 1000
SECOND = 1_000_000


class ViolationError(AssertionError):
    """An invariant does not hold; the text begins with its name."""


class BusyThreads(Executor):
    """Threads that have other jobs, too: one job in five ends so late that everything may have changed meanwhile."""

    BUSY = 0.2
    MOST_JOB_US = 15 * SECOND


class Machine:
    """A computer: a name on the network, a disk, and clocks of its own."""

    MOST_JOB_US = 20 * MS
    """The usual upper bound of a job's time in another thread; most jobs wait for the disk."""

    def __init__(self, sim: Simulation, host: str) -> None:
        self.sim = sim
        self.host = host
        self.up = True
        self.boots = 0
        self.disk: Disk
        self.most_job_us = self.MOST_JOB_US
        # Monotonic clocks of two machines have nothing to do with each other, and code must not mix them up.
        self.monotonic_offset_us = sim.random.randrange(10, 1000) * SECOND
        self.wall_offset_us = 0
        self.processes: list[Process] = []

    @property
    def monotonic_us(self) -> int:
        return self.sim.now + self.monotonic_offset_us

    @property
    def wall_us(self) -> int:
        return 1_700_000_000 * SECOND + self.sim.now + self.wall_offset_us


class Handle:
    """A callback due in a process. It stands in for asyncio's Handle and TimerHandle."""

    __slots__ = ("args", "callback", "due", "process")

    def __init__(
        self, process: Process, callback: Callable[..., Any] | None, args: tuple[Any, ...], due: float
    ) -> None:
        self.process = process
        self.callback = callback
        self.args = args
        self.due = due

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.due


class Process:
    """A process on a machine. `on_kill` is what the kernel does when it dies: closing files, mostly."""

    def __init__(self, sim: Simulation, name: str, machine: Machine) -> None:
        self.sim = sim
        self.name = name
        self.machine = machine
        self.pid = sim.next_pid()
        self.alive = True
        self.stopped = False
        self.starved = False
        self.starved_since_us: int | None = None
        self.cpu_us = 0
        self.loop = SimLoop(self)
        self.on_kill: list[Callable[[], None]] = []
        self.endpoints: dict[Any, None] = {}
        self.frozen: list[Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        machine.processes.append(self)
        sim.processes[self.pid] = self

    def run(self, work: Any) -> asyncio.Task[Any]:
        """Begin a coroutine in this process."""
        task: asyncio.Task[Any] = self.loop.create_task(work)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    def kill(self, *, silently: bool = False) -> None:
        """End it at once. `silently`: its machine has gone with it, so nobody is told."""
        if not self.alive:
            return
        self.sim.say(f"{self.name} dies")
        self.alive = False
        self.frozen.clear()
        self.machine.processes.remove(self)
        del self.sim.processes[self.pid]
        for endpoint in list(self.endpoints):
            endpoint.process_died(silently)
        for action in self.on_kill:
            action()

    def stop(self) -> None:
        """SIGSTOP."""
        if self.alive and not self.stopped:
            self.sim.say(f"{self.name} is stopped")
            self.stopped = True
            self.loop.turn_began_us = self.machine.monotonic_us

    def go_on(self) -> None:
        """SIGCONT. It may have been stopped in the middle of a turn: then its loop believes it is still then."""
        if not (self.alive and self.stopped):
            return
        self.sim.say(f"{self.name} goes on")
        self.stopped = False
        self._thaw()
        if self.sim.random.random() < 0.5:
            self.loop.stale_us = self.loop.turn_began_us
            self.loop.call_soon(self.loop.forget_stale)

    def starve(self) -> None:
        """It is runnable, and others have the CPU."""
        if self.starved_since_us is None:
            self.starved_since_us = self.sim.now
        self.starved = True

    def feed(self, cpu_us: int) -> None:
        """It has the CPU, for all that has come meanwhile."""
        self.starved = False
        self.cpu_us += cpu_us
        self._thaw()

    def is_fed(self) -> None:
        """It has handled all that came while it starved, and waits again."""
        self.starved_since_us = None

    def _thaw(self) -> None:
        if not self.stopped and not self.starved:
            frozen, self.frozen = self.frozen, []
            self.sim.ready.extend(frozen)


class Simulation:
    """The scheduler: it runs each callback of each process in its turn."""

    current: Simulation | None = None

    def __init__(self, seed: int, *, trace: bool = False) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.trace = trace
        self.now = 0
        self.ready: deque[Handle] = deque()
        self.processes: dict[int, Process] = {}
        self.process: Process | None = None
        self.network: Network
        self.steps = 0
        self.digest = 0
        self.calm = False  # with no more faults to come, no job takes very long
        self.over = False
        self.failure: BaseException | None = None
        self.judge_kill: Callable[[Process], None] = lambda process: None
        """Told of each process that the product kills for its silence."""
        self._timers: list[tuple[int, int, Handle]] = []
        self._count = 0
        self._pids = 1000

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    def note(self, data: bytes) -> None:
        """Add an event to the run's fingerprint."""
        self.digest = crc32(data, self.digest ^ (self.now & 0xFFFFFFFF))

    def say(self, text: str) -> None:
        if self.trace:
            sys.stdout.write(f"{self.now / SECOND:9.4f}  {text}\n")

    def fail(self, name: str, text: str) -> None:
        """An invariant does not hold: the run ends after this step, even if the product catches the exception."""
        violation = ViolationError(f"{name}: {text}")
        if self.failure is None:
            self.failure = violation
        raise violation

    def at(self, when_us: int, process: Process | None, callback: Callable[..., Any], *args: Any) -> Handle:
        """Call something in a process at a time; None is the world itself, which never stops."""
        handle = Handle(process or self.world, callback, args, when_us / SECOND)
        self._count += 1
        heappush(self._timers, (when_us, self._count, handle))
        return handle

    def after(self, delay_us: int, callback: Callable[..., Any], *args: Any) -> Handle:
        """Call something in the world, later."""
        return self.at(self.now + delay_us, None, callback, *args)

    def run_until(self, end_us: int, done: Callable[[], bool] | None = None) -> bool:
        """Let time pass up to `end_us`, or until `done`, which is asked now and then. True if it was done."""
        try:
            return self._run_until(end_us, done)
        finally:
            self.process = None
            events._set_running_loop(None)

    def _run_until(self, end_us: int, done: Callable[[], bool] | None) -> bool:
        ready, timers = self.ready, self._timers
        asked = self.now
        while True:
            while ready:
                self._step(ready.popleft())
            if done is not None and self.now - asked > 50 * MS:
                asked = self.now
                if done():
                    return True
            if not timers or timers[0][0] > end_us:
                break
            when, _, handle = heappop(timers)
            if handle.callback is not None:
                self.now = max(when, self.now)
                self._step(handle)
        self.now = max(end_us, self.now)
        return done() if done is not None else False

    def _step(self, handle: Handle) -> None:
        callback, process = handle.callback, handle.process
        if callback is None or not process.alive:
            return
        if process.stopped or process.starved:
            process.frozen.append(handle)
            return
        self.steps += 1
        if process is not self.process:
            self.process = process
            events._set_running_loop(process.loop)
        try:
            callback(*handle.args)
        except ViolationError:
            raise
        except Exception as error:
            if self.failure is None:
                raise ViolationError(f"unhandled: in {process.name}: {type(error).__name__}: {error}") from error
        if self.failure is not None:
            raise self.failure

    def begin(self) -> None:
        """Make this the simulation that clocks and ids are taken from."""
        self.world = Process(self, "world", Machine(self, "world"))
        Simulation.current = self

    def end(self) -> None:
        """Nothing happens any more; the remains of processes may be collected in any order."""
        self.over = True
        for process in list(self.processes.values()):
            process.alive = False
            for action in process.on_kill:
                action()
        self.ready.clear()
        self._timers.clear()

    def discard(self) -> None:
        """Let go of everything, so that coroutines left in the middle end now and not in the next run."""
        self.processes.clear()
        self.process = None


class SimLoop(asyncio.AbstractEventLoop):
    """A process's loop."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._sim = process.sim
        self.turn_began_us = 0
        self.stale_us: int | None = None

    def forget_stale(self) -> None:
        self.stale_us = None

    # -- time

    def time(self) -> float:
        us = self.stale_us if self.stale_us is not None else self._process.machine.monotonic_us
        return us / SECOND

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> Handle:  # type: ignore[override]
        handle = Handle(self._process, callback, args, 0.0)
        if self._process.alive:
            self._sim.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Handle:  # type: ignore[override]
        return self.call_at(self.time() + delay, callback, *args)

    def call_at(self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None) -> Handle:  # type: ignore[override]
        due = round(when * SECOND) - self._process.machine.monotonic_offset_us
        handle = self._sim.at(max(due, self._sim.now), self._process, callback, *args)
        handle.due = when
        return handle

    # -- futures and tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Any = None) -> asyncio.Task[Any]:  # type: ignore[override]
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name)
        self._process.tasks.append(task)
        if len(self._process.tasks) > 100:
            self._process.tasks = [task for task in self._process.tasks if not task.done()]
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Another thread does it, some time later, in one go."""
        future = self.create_future()
        most_us = self._process.machine.most_job_us
        if isinstance(executor, BusyThreads) and self._sim.random.random() < executor.BUSY and not self._sim.calm:
            most_us = executor.MOST_JOB_US
        delay_us = self._sim.random.randint(100, most_us)
        self._sim.at(self._sim.now + delay_us, self._process, self._execute, future, func, args)
        return future

    @staticmethod
    def _execute(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = func(*args)
        except ViolationError:
            raise
        except Exception as error:
            if not future.done():
                future.set_exception(error)
        else:
            if not future.done():
                future.set_result(result)

    # -- sockets

    async def create_server(self, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return self._sim.network.listen(self._process, factory, (host, port))

    async def create_unix_server(self, factory: Any, path: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return self._sim.network.listen(self._process, factory, ("unix", path))

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return await self._sim.network.connect(self._process, factory, (host, port))

    async def create_unix_connection(self, factory: Any, path: Any = None, **options: Any) -> Any:  # type: ignore[override]
        return await self._sim.network.connect(self._process, factory, ("unix", path))

    # -- the rest of asyncio's interface

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """A task or future has failed and nobody looked."""
        if self._process.alive and not self._sim.over and "exception" in context:
            error = context["exception"]
            if self._sim.failure is None:
                text = f"unhandled: in a task of {self._process.name}: {type(error).__name__}: {error}"
                self._sim.failure = ViolationError(text)
