"""The faults of a chaos run: processes are killed, stopped, or all killed; a pool gets a new version."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable

import psutil

from tests.chaos.history import History
from tests.compat.peers import Coterie
from tests.compat.processes import end_family

LEASE_S = 6.0  # broker.session.timeout.ms


class Tormentor:
    """Chooses faults at random and commits them. `seed` fixes the choice, not the timing."""

    def __init__(self, cluster: Coterie, history: History, seed: int, deploy: Callable[[], None]) -> None:
        self._cluster, self._history, self._deploy = cluster, history, deploy
        self._random = random.Random(seed)
        self._faults: list[tuple[int, str, Callable[[], bool]]] = [
            (6, "kill -9 of a shard", lambda: self._kill("OffsetsPartition")),
            (6, "kill -9 of a broker", lambda: self._kill("Broker")),
            (2, "kill -9 of the controller", lambda: self._kill("Controller")),
            (3, "kill -9 of a pool's member", lambda: self._kill("ConsumerActor")),
            (2, "kill -9 of a pool's supervisor", lambda: self._kill("PoolSupervisor")),
            (1, "a pool's new version", self._roll),
            (2, "shard stopped for 3 s", lambda: self._stop("OffsetsPartition", 3.0)),
            (2, "broker stopped beyond its lease", lambda: self._stop("Broker", LEASE_S + 2)),
            (1, "everything killed and started again", self._kill_everything),
        ]

    def strike(self) -> str:
        """Commit one fault that is possible now; its name."""
        while True:
            (chosen,) = self._random.choices(self._faults, [weight for weight, _, _ in self._faults])
            _, kind, act = chosen
            if act():
                return kind
            time.sleep(0.2)  # nobody of that kind lives just now

    def heal(self) -> None:
        """All that was killed is started again, and all that was stopped goes on, by itself."""

    def by_name(self, part: str) -> str:
        """Commit the fault whose name contains `part`."""
        kind, act = next((kind, act) for _, kind, act in self._faults if part in kind)
        while not act():
            time.sleep(0.2)
        return kind

    def _note(self, kind: str, pid: int) -> None:
        self._history.note("fault", kind=kind, pid=pid)

    def _victim(self, actor: str) -> psutil.Process | None:
        """A living process of that kind of actor; of shards, one that hosts a partition."""
        found = []
        for process in self._cluster.family():
            with contextlib.suppress(psutil.Error):
                if any(actor in word for word in process.cmdline()) and process.status() != psutil.STATUS_STOPPED:
                    found.append(process)
        return self._random.choice(found) if found else None

    def _kill(self, actor: str) -> bool:
        victim = self._victim(actor)
        if victim is None:
            return False
        self._note(f"kill -9 of a {actor}", victim.pid)
        with contextlib.suppress(psutil.NoSuchProcess):
            victim.kill()
        return True

    def _stop(self, actor: str, seconds: float) -> bool:
        victim = self._victim(actor)
        if victim is None:
            return False
        self._note(f"{actor} stopped for {seconds:.0f} s", victim.pid)
        with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
            os.kill(victim.pid, signal.SIGSTOP)
            time.sleep(seconds)
            victim.send_signal(signal.SIGCONT)
        return True

    def _roll(self) -> bool:
        """A new version of the pool; False where a program cannot deploy one now, as while the controller is away."""
        try:
            self._deploy()
        except RuntimeError:
            return False
        self._note("a pool's new version", self._cluster.pid)
        return True

    def _kill_everything(self) -> bool:
        family = self._cluster.family()  # it takes a while, and commits go on meanwhile
        self._note("everything killed and started again", self._cluster.pid)
        self._cluster.kill()
        end_family(family)
        self._cluster.start()
        return True
