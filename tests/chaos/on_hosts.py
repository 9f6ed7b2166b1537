"""The faults of a chaos run on hosts: they are killed, cut off, muted, or lose their disks; processes die on them.

Each of four hosts has a broker, three have a controller, and the first has Ray's head, whose state outlives it. At most
one of them is away at a time.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

from tests.chaos.history import History
from tests.hosts.clusters import SOON_FENCED, OnHosts, started
from tests.hosts.host import Host
from tests.hosts.hosts import Hosts
from tests.support.waiting import wait_until

_SHORT_S, _LONG_S = (1.0, 5.0), (8.0, 20.0)
"""Within a broker's lease, and beyond it."""
_WHOLE_SECONDS = 180.0
_REMOVAL_SECONDS = 300.0
_HOSTS = 4
_CONTROLLERS = 3
_PATIENT = {"RAY_gcs_rpc_server_reconnect_timeout_s": "600"}
"""Nodes wait so long for Ray's head (docs/deployment.md)."""


@contextlib.contextmanager
def cluster_on_hosts(folder: Path) -> Iterator[OnHosts]:
    """A cluster with three controllers on four hosts of its own. `folder` gets their logs in the end."""
    with Hosts() as hosts:
        head, *others = made = [hosts.add() for _ in range(_HOSTS)]
        for host in made:
            host.variables |= _PATIENT
        head.variables |= {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": str(head.disk / "gcs")}
        head.start_ray()
        for host in others:
            host.start_ray(head)
        with started(made, "chaos", 9400, _CONTROLLERS, SOON_FENCED) as cluster:
            wait_until(cluster.controllers_are_whole, what="three controllers")
            try:
                yield cluster
            finally:
                for host in made:
                    shutil.copytree(host.files / cluster.name / "logs", folder / host.name, dirs_exist_ok=True)
                with contextlib.suppress(AssertionError):
                    (folder / "status").write_text(cluster.command("status"))


class HostTormentor:
    """Chooses faults at random and commits them. `seed` fixes the choice, not the timing."""

    def __init__(self, cluster: OnHosts, history: History, seed: int, topic: str) -> None:
        self._cluster, self._history, self._topic = cluster, history, topic
        self._head, self._random = cluster.hosts[0], random.Random(seed)
        self._faults: list[tuple[int, str, Callable[[], None]]] = [
            (4, "host killed", self._host_killed),
            (2, "host's power lost", lambda: self._host_killed(silently=True)),
            (3, "host cut off for a moment", lambda: self._cut_off(_SHORT_S)),
            (3, "host cut off", lambda: self._cut_off(_LONG_S)),
            (2, "host muted", lambda: self._muted(_LONG_S)),
            (2, "link muted one way", lambda: self._muted(_LONG_S, one=True)),
            (1, "head gone and back", self._head_gone),
            (1, "disk emptied, and broker replaced", self._disk_emptied),
            (1, "broker removed, and another one added", self._broker_removed),
            (2, "kill -9 of Ray's GCS", self._kill_gcs),
            (3, "kill -9 of a broker", lambda: self._kill("ray::Broker")),
            (3, "kill -9 of a shard", lambda: self._kill("ray::OffsetsPartition")),
            (2, "kill -9 of a controller", lambda: self._kill("ray::Controller")),
            (2, "kill -9 of the controller that leads", self._kill_leader),
        ]

    def strike(self) -> str:
        """Commit one fault, and undo it; its name."""
        self._all_run()
        (chosen,) = self._random.choices(self._faults, [weight for weight, _, _ in self._faults])
        return self._commit(chosen)

    def by_name(self, part: str) -> str:
        """Commit the fault whose name contains `part`."""
        return self._commit(next(fault for fault in self._faults if part in fault[1]))

    def _commit(self, fault: tuple[int, str, Callable[[], None]]) -> str:
        _, kind, act = fault
        self._history.note("fault", kind=kind)
        act()
        return kind

    def heal(self) -> None:
        """Wait until all is as at first."""
        wait_until(lambda: self._all_run() and self._cluster.whole(self._topic), _WHOLE_SECONDS, "all in sync")
        wait_until(lambda: self._all_run() and self._cluster.controllers_are_whole(), _WHOLE_SECONDS, "controllers")

    def _all_run(self) -> bool:
        """Have all hosts run Ray. A node that Ray's head took for dead ends a while after it is heard again."""
        for host in self._cluster.hosts[1:]:
            self._back(host)
        return True

    # --- hosts

    def _victim(self) -> Host:
        """Any host but the one with Ray's head, without which no other one comes back."""
        return self._random.choice(self._cluster.hosts[1:])

    def _while_away(self, span: tuple[float, float]) -> None:
        time.sleep(self._random.uniform(*span))

    def _back(self, host: Host) -> None:
        """Have its Ray run, which ends with the host, and some time after Ray's head has taken it for dead."""
        if not host.is_up:
            host.boot()
        host.keep_ray(self._head)

    def _host_killed(self, *, silently: bool = False) -> None:
        host = self._victim()
        host.kill(silently=silently)
        self._while_away(self._random.choice((_SHORT_S, _LONG_S)))
        self._back(host)

    def _cut_off(self, span: tuple[float, float]) -> None:
        host = self._random.choice(self._cluster.hosts)
        host.network.cut(host.name)
        self._while_away(span)
        host.network.heal(host.name)
        self._back(host)

    def _muted(self, span: tuple[float, float], *, one: bool = False) -> None:
        host, other = self._random.sample(self._cluster.hosts, 2)
        to = (other.name,) if one else ()
        host.network.mute(host.name, *to)
        self._while_away(span)
        host.network.unmute(host.name, *to)
        self._back(host)

    def _head_gone(self) -> None:
        self._head.kill()
        self._while_away(_LONG_S)
        self._head.boot()
        self._head.start_ray()

    def _broker_removed(self) -> None:
        self.heal()  # where replicas are missing, none is removed
        broker = self._cluster.broker_on(self._victim())
        self._cluster.command("brokers", "remove", str(broker), timeout_s=_REMOVAL_SECONDS)
        self._cluster.command("brokers", "add")
        self.heal()

    def _disk_emptied(self) -> None:
        self.heal()  # else it might be the only one that has some record
        self._cluster.empty_disk(self._victim())
        self.heal()

    # --- processes

    def _kill(self, title: str) -> None:
        found = [process for host in self._cluster.hosts for process in host.processes(title)]
        if found:
            _kill(self._random.choice(found))

    def _kill_leader(self) -> None:
        host = wait_until(self._cluster.led_from, what="a controller that leads")
        for process in host.processes("ray::Controller"):
            _kill(process)

    def _kill_gcs(self) -> None:
        """Kill the process that knows all nodes and actors of Ray, and start it again."""
        (gcs,) = self._head.processes("gcs_server")
        command, variables = gcs.cmdline(), gcs.environ()
        _kill(gcs)
        self._while_away(self._random.choice((_SHORT_S, _LONG_S)))
        self._head.start(*command, variables=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _kill(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
