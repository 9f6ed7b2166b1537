"""The launcher: the one place that starts and ends brokers, shard processes and the Monitor, all of them Ray actors."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import Any

import ray

from actors.broker.actor import Broker
from actors.broker.spec import BrokerSpec, BrokerStart
from actors.controller.shard_starts import ShardStarts
from actors.links.versions import OWN
from actors.monitor.actor import Monitor
from actors.monitor.spec import MonitorSpec, MonitorStart
from actors.offsets_partition.actor import OffsetsPartition
from actors.offsets_partition.spec import ShardStart
from actors.runtime.liveness import Sight, look
from actors.runtime.logs import LogPlace, about
from actors.runtime.process import last_line
from actors.runtime.ray_nodes import draining_nodes
from actors.settings import BrokerConfig
from placement.nodes import Node, alive_nodes, beside, staying_at, successor

log = logging.getLogger(__name__)

START_SECONDS = 120.0
"""A broker that is started and gives no sign of life for this time is ended, and started again."""
_FAILED_SHARD_SECONDS = 1.0
_DRAINED_SHARD_SECONDS = 30.0
_NEXT_NODE = "it is started on the next node with this disk"
_WAITS = "it waits for that node, or is replaced (coterie brokers replace)"
_SILENT = "Ray has not started its process, or this does not answer, for {:.0f} s; see `ray status`, and memory"


def _in_rack_of(node: Node, spec: BrokerSpec) -> BrokerSpec:
    """The spec of a broker on a Ray node. The node's rack comes before the one that is set for all brokers."""
    return spec if node.rack is None else replace(spec, config={**spec.config, "broker.rack": node.rack})


class RayLauncher:
    """Starts and ends broker and shard actors. Called from the controller's loop, which it never blocks.

    All calls to Ray are made in one thread, in the order asked for. Ray's own callbacks never call Ray, nor wait: they
    run in the thread that takes in Ray's answers, so a call there would wait for itself. A controller's shell of an
    earlier build makes one, too, and says its version (docs/operations.md, Upgrades).
    """

    def __init__(
        self,
        namespace: str,
        logs: LogPlace,
        _version: str,
        node_id: str,
        draining: Callable[[], Collection[str]] = draining_nodes,
    ) -> None:
        self._draining = draining
        self._namespace = namespace
        self._node_id = node_id  # the controller's own
        self._logs = logs
        self._brokers: dict[int, Any] = {}
        self._specs: dict[int, tuple[BrokerSpec, Node]] = {}
        self._placing = threading.Lock()  # they change on several threads
        self._incarnations: dict[int, int] = {}
        self._shards = ShardStarts()
        self._shard_number = 0
        self._heard: dict[int, float] = {}  # the last sign of life of a broker that is being started
        self.start_failed: Callable[[int], None] = lambda broker_id: None
        self.errors: dict[int, str] = {}
        self.may_move: Callable[[int], bool] = lambda broker_id: False
        """True for a broker that was replaced and has no data yet: it may be started on any node."""
        self.place_elsewhere: Callable[[int], None] = lambda broker_id: None
        """Calls `add` for a broker with another node than it had."""
        self._drained: frozenset[str] = frozenset()  # nodes, at the last look
        self._homeless: set[int] = set()  # brokers of whose homes there was no node at the last look
        self._looking: set[int] = set()  # those whose homes are to be looked for
        self.monitor: MonitorSpec | None = None
        """The spec of the Monitor; None if none is to be started."""
        self.start_timeout_s = START_SECONDS
        self.starts_under_way: set[Any] = set()
        self.stopping = False
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._run, name="coterie-launcher", daemon=True).start()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            try:
                work()
            except Exception:  # nobody looks at this thread, and the next work is another one
                log.exception("starting or ending a process")

    def add(self, spec: BrokerSpec, node: Node) -> None:
        """Note a broker of this cluster, and the Ray node that has its data directory."""
        with self._placing:
            self._specs[spec.broker_id] = (spec, node)

    def tell_otherwise(self, changed: Callable[[BrokerSpec, Node], BrokerSpec]) -> None:
        """Have brokers told something else whenever they are started from now on."""
        with self._placing:
            for broker_id, (spec, node) in self._specs.items():
                self._specs[broker_id] = (changed(spec, node), node)

    def adopt(self) -> None:
        """After a restart of the controller: find the brokers its predecessor started."""
        self._brokers.update(self._running("broker"))

    def _running(self, kind: str) -> list[tuple[int, Any]]:
        """The brokers or shards of this cluster that Ray knows, each with the id of its broker."""
        found = []
        for entry in ray.util.list_named_actors(all_namespaces=True):
            name = entry["name"].split("-")
            if entry["namespace"] == self._namespace and name[0] == kind:
                with suppress(ValueError):  # it has died meanwhile
                    found.append((int(name[1]), ray.get_actor(entry["name"], namespace=self._namespace)))
        return found

    def start_broker(self, broker_id: int) -> None:
        """Start a broker's process, at the port it had before."""
        self._work.put(partial(self._start_broker, broker_id))

    def _start_broker(self, broker_id: int) -> None:
        if self.stopping:
            return
        try:
            replaced = self._brokers.pop(broker_id, None)
            if replaced is not None:
                ray.kill(replaced)  # it was asked for twice, but only one process can have the data
            self._start_on_its_node(broker_id)
        except Exception as error:  # also Ray's own, if it is busy
            self._not_started(broker_id, last_line(error))

    def leaving(self, alive: Collection[Node]) -> Collection[str]:
        """Those of the living nodes that are drained. Ray is not asked about a node that is alone: it has to do."""
        return self._draining() if len(alive) > 1 else ()

    def _start_on_its_node(self, broker_id: int) -> None:
        alive = alive_nodes()
        leaving = self.leaving(alive)
        node, present = self._home(broker_id, alive, leaving)
        if (present is None or present.node_id in leaving) and self.may_move(broker_id):
            self.place_elsewhere(broker_id)
            node, present = self._home(broker_id, alive, leaving)
        if present is None:
            raise RuntimeError(f"broker {broker_id}: Ray node {node.home} with its data is gone: {_WAITS}")
        if present.node_id in leaving:  # Ray would refuse the start, again and again
            raise RuntimeError(f"broker {broker_id}: Ray node {node.home} with its data is drained: {_NEXT_NODE}")
        spec = self._note_at(broker_id, present)
        number = self._incarnations[broker_id] = self._incarnations.get(broker_id, 0) + 1
        actor = Broker.options(  # type: ignore[attr-defined]
            name=f"broker-{broker_id}-{os.getpid()}-{number}",
            namespace=self._namespace,
            lifetime="detached",
            **staying_at(present, alive),
        ).remote(BrokerStart(OWN, _in_rack_of(present, spec), self._namespace, self._logs).encoded())
        self._brokers[broker_id] = actor
        self.starts_under_way.add(actor)
        self._heard[broker_id] = time.monotonic()
        self._watch(broker_id, actor)
        actor.serve.remote().future().add_done_callback(
            lambda future: self._work.put(partial(self._ended, broker_id, actor, future.exception()))
        )

    def _home(self, broker_id: int, alive: list[Node], leaving: Collection[str]) -> tuple[Node, Node | None]:
        """The node of a broker as it was noted, and the living one that has its disk now."""
        node = self._specs[broker_id][1]
        return node, successor(node, alive, leaving)

    def move_broker(self, broker_id: int) -> None:
        """Have a broker that was replaced started on another node from now on."""
        self._work.put(lambda: self.place_elsewhere(broker_id))

    def home_is_gone(self, broker_id: int) -> bool:
        """True if no node with the broker's home was there at the last look. It asks for another look.

        Each look counts once: while Ray does not answer, nothing is known, and no more looks are asked for.
        """
        is_gone = broker_id in self._homeless
        self._homeless.discard(broker_id)
        if broker_id not in self._looking:
            self._looking.add(broker_id)
            self._work.put(partial(self._look_for_home, broker_id))
        return is_gone

    def _look_for_home(self, broker_id: int) -> None:
        self._looking.discard(broker_id)
        with suppress(Exception):  # Ray is away, or busy
            if self._home(broker_id, alive_nodes(), ())[1] is None:
                self._homeless.add(broker_id)

    def _note_at(self, broker_id: int, present: Node) -> BrokerSpec:
        with self._placing:
            spec, node = self._specs[broker_id]
            spec = spec.moved(node.address, present.address)
            self._specs[broker_id] = (spec, present)
        return spec

    def _not_started(self, broker_id: int, reason: str) -> None:
        level = logging.DEBUG if self.errors.get(broker_id) == reason else logging.ERROR  # once for each reason
        self.errors[broker_id] = reason
        log.log(level, "broker %d did not start: %s", broker_id, reason, extra=about(broker=broker_id))
        self.start_failed(broker_id)

    def _watch(self, broker_id: int, actor: Any) -> None:
        """Give a start up of which nothing has been heard for too long. Recovery may take as long as it takes."""
        if actor not in self.starts_under_way:
            return
        left = self._heard[broker_id] + self.start_timeout_s - time.monotonic()
        if left > 0:
            self._later(left, partial(self._watch, broker_id, actor))
        elif self._over(broker_id, actor):
            ray.kill(actor)
            self._not_started(broker_id, f"broker {broker_id}: {_SILENT.format(self.start_timeout_s)}")

    def _ended(self, broker_id: int, actor: Any, error: BaseException | None) -> None:
        """A broker's process has ended. Once it has registered, the end of its connection says so first."""
        if actor in self.starts_under_way and self._over(broker_id, actor):
            cause = getattr(error, "cause", None)
            self._not_started(broker_id, last_line(cause or error or RuntimeError("it stopped before it served")))

    def _over(self, broker_id: int, actor: Any) -> bool:
        """Take a start for ended. Returns whether that was unexpected, and not done on purpose."""
        self.starts_under_way.discard(actor)
        return self._brokers.get(broker_id) is actor

    def _later(self, delay_s: float, work: Callable[[], None]) -> None:
        timer = threading.Timer(delay_s, self._work.put, (work,))
        timer.daemon = True
        timer.start()

    def heard(self, broker_id: int) -> None:
        """A broker that was started lives; it has not registered yet."""
        self._heard[broker_id] = time.monotonic()

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        """A broker has registered; it listens at these ports, as the next process of this broker is to do, too."""
        self.starts_under_way.discard(self._brokers.get(broker_id))
        self.errors.pop(broker_id, None)
        with self._placing:
            spec, node = self._specs[broker_id]
            self._specs[broker_id] = (spec.at_ports(ports), node)
        self._work.put(partial(self._look_where, broker_id))

    def _look_where(self, broker_id: int) -> None:
        """Note another node with a broker's disk, if its own has gone: Ray may have started it on the next one."""
        with suppress(Exception):  # Ray is away, or busy
            node = self._specs[broker_id][1]
            self._note_at(broker_id, successor(node, alive_nodes()) or node)

    def kill_broker(self, broker_id: int) -> None:
        """End a broker's process at once."""
        self._work.put(partial(self._shards.forget, broker_id))
        actor = self._brokers.pop(broker_id, None)
        if actor is not None:
            self._work.put(partial(ray.kill, actor))

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        """The state of a broker's process; None if it is gone, or on another Ray node than this controller."""
        placed = self._specs.get(broker_id)
        return look(pid, started) if placed is not None and placed[1].node_id == self._node_id else None

    def nodes(self) -> set[str]:
        """The Ray nodes that brokers are on, as far as that is known."""
        with self._placing:
            return {node.node_id for _, node in self._specs.values()} - {""}

    def start_nothing_on(self, nodes: Collection[str]) -> None:
        """Start no more processes on these Ray nodes, which are drained; on those that no longer are, what was owed."""
        if self._drained != (now := frozenset(nodes)):
            self._drained = now
            self._work.put(self._start_more)

    def start_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        """Have `count` shard processes under way to a broker, first those `urgent` ones that clients wait for.

        The broker says that those in `here` have come to it.
        """
        self._work.put(partial(self._want_shards, broker_id, count, urgent, here))

    def _want_shards(self, broker_id: int, count: int, urgent: int, here: tuple[str, ...]) -> None:
        self._shards.want(broker_id, count, urgent, here)
        self._start_more()

    def _start_more(self) -> None:
        held = [broker_id for broker_id in list(self._specs) if self.node_of(broker_id) in self._drained]
        while not self.stopping and (broker_id := self._shards.next(held)) is not None:
            self._start_shard(broker_id)

    def _start_shard(self, broker_id: int) -> None:
        spec, node = self._specs[broker_id]
        self._shard_number += 1
        name = f"shard-{broker_id}-{os.getpid()}-{self._shard_number}"
        niceness = BrokerConfig.from_mapping(spec.config).integer("coterie.process.niceness")
        start = ShardStart(OWN, spec.socket_path, name, self._logs, broker_id, niceness)
        actor = OffsetsPartition.options(  # type: ignore[attr-defined]
            name=name,
            namespace=self._namespace,
            lifetime="detached",
            **beside(node.node_id),  # waiting for the next node there, it would take the turn of others
        ).remote(start.encoded())
        self._shards.begun(broker_id, name)
        actor.serve.remote().future().add_done_callback(
            lambda future: self._work.put(partial(self._shard_ended, broker_id, name, future.exception()))
        )
        self._later(self.start_timeout_s, partial(self._end_silent_shard, name, actor))

    def _end_silent_shard(self, name: str, actor: Any) -> None:
        """End a process that has not come to any broker: Ray may not have started it. Others wait for its turn."""
        if self._shards.under_way(name):
            ray.kill(actor)

    def _shard_ended(self, broker_id: int, name: str, error: BaseException | None) -> None:
        if not self._shards.under_way(name) or self.stopping:
            return
        cause = getattr(error, "cause", None) or error or "no broker took it"
        log.error("a shard process of broker %d did not start: %s", broker_id, cause, extra=about(broker=broker_id))
        self._look_where(broker_id)
        # The broker asks again. A machine that cannot start processes should not be busy with that all the time.
        drained = self.node_of(broker_id) in self._draining()  # Ray starts nothing there any more
        self._later(_DRAINED_SHARD_SECONDS if drained else _FAILED_SHARD_SECONDS, partial(self._give_up_shard, name))

    def _give_up_shard(self, name: str) -> None:
        self._shards.over(name)
        self._start_more()

    def start_monitor(self) -> None:
        """Start the cluster's Monitor; one that runs is ended first."""
        self._work.put(self._start_monitor)

    def _start_monitor(self) -> None:
        spec = self.monitor
        if self.stopping or spec is None or self._node_id in self._drained:
            return
        self._end_monitor()
        actor = Monitor.options(  # type: ignore[attr-defined]
            name="monitor",
            namespace=self._namespace,
            lifetime="detached",
            **beside(self._node_id),
        ).remote(MonitorStart(OWN, spec, self._logs).encoded())
        actor.serve.remote()

    def _end_monitor(self) -> None:
        with suppress(ValueError):  # there is none
            ray.kill(ray.get_actor("monitor", namespace=self._namespace))

    def node_of(self, broker_id: int) -> str:
        """The id of the Ray node that a broker runs on; empty if no such broker was ever placed."""
        placed = self._specs.get(broker_id)
        return "" if placed is None else placed[1].node_id

    def expect_long_starts(self) -> None:
        """The cluster has started: nobody waits for the next start of a process."""
        self.start_timeout_s = START_SECONDS

    def start_no_more(self) -> None:
        """Start no process any more."""
        self.stopping = True
        idle = threading.Event()
        self._work.put(idle.set)  # after that, all that is being started is in the tables
        idle.wait(1.0)

    def end(self) -> None:
        """End all processes."""
        brokers, self._brokers = list(self._brokers.values()), {}
        for actor in (*brokers, *(actor for _, actor in self._running("shard"))):
            ray.kill(actor)
        self._end_monitor()
