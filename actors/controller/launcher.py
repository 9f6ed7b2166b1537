"""The launcher: the one place that starts and ends brokers, shard processes and the Monitor, all of them Ray actors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from actors.broker.spec import BrokerSpec, BrokerStart
from actors.controller.ray_actors import RayActors, Role
from actors.controller.shard_starts import ShardStarts
from actors.controller.work_thread import Work
from actors.links.versions import OWN
from actors.monitor.spec import MonitorSpec, MonitorStart
from actors.offsets_partition.spec import ShardStart
from actors.runtime.environment import REAL, Environment
from actors.runtime.liveness import Sight, look
from actors.runtime.logs import LogPlace, about
from actors.runtime.process import last_line
from actors.settings import BrokerConfig
from placement.nodes import Node, beside, staying_at, successor

log = logging.getLogger(__name__)

START_SECONDS = 120.0
"""A broker that is started and gives no sign of life for this time is ended, and started again."""
_FAILED_SHARD_SECONDS = 1.0
_DRAINED_SHARD_SECONDS = 30.0
_MONITOR = "monitor"
_NEXT_NODE = "it is started on the next node with this disk"
_WAITS = "it waits for that node, or is replaced (coterie brokers replace)"
_SILENT = "Ray has not started its process, or this does not answer, for {:.0f} s; see `ray status`, and memory"


def _in_rack_of(node: Node, spec: BrokerSpec) -> BrokerSpec:
    """The spec of a broker on a Ray node. The node's rack comes before the one that is set for all brokers."""
    return spec if node.rack is None else replace(spec, config={**spec.config, "broker.rack": node.rack})


class Owner(Protocol):
    """The controller as its launcher needs it. It is called where `work` is done, and may take its time."""

    def start_failed(self, broker_id: int, reason: str) -> None:
        """A broker's process ended before it registered, or could not begin."""

    def may_move(self, broker_id: int) -> bool:
        """True for a broker that was replaced and has no data yet: it may be started on any node."""

    def place_elsewhere(self, broker_id: int) -> None:
        """Call `add` for a broker with another node than it had."""


class ActorLauncher:
    """Starts and ends broker and shard actors. Called from the controller's loop, which it never blocks.

    All calls of Ray are made by `work`, in the order asked for. `namespace` is the one where processes look for the
    controller. `monitor` is the spec of the Monitor; None if there is to be none. `of_controller` begins what tells the
    names that it gives from those of controllers on other nodes.
    """

    def __init__(
        self,
        actors: RayActors,
        namespace: str,
        logs: LogPlace,
        owner: Owner,
        work: Work,
        monitor: MonitorSpec | None = None,
        environment: Environment = REAL,
        of_controller: str = "",
    ) -> None:
        self._actors = actors
        self._namespace = namespace
        self._logs = logs
        self._owner = owner
        self._work = work
        self._monitor = monitor
        self._clock = environment.clock
        self._starter = f"{of_controller}{environment.kernel.pid()}"
        self._node_id = actors.node_id  # the controller's own
        self._brokers: dict[int, str] = {}  # the names of their actors
        self._specs: dict[int, tuple[BrokerSpec, Node]] = {}
        self._placing = threading.Lock()  # they change on several threads
        self._number = 0
        self._shards = ShardStarts()
        self._heard: dict[int, float] = {}  # the last sign of life of a broker that is being started
        self._said: dict[int, str] = {}  # the reason why a broker did not start, as it was logged last
        self._starting: set[str] = set()
        self._drained: frozenset[str] = frozenset()  # nodes, at the last look
        self._homeless: set[int] = set()  # brokers of whose homes there was no node at the last look
        self._looking: set[int] = set()  # those whose homes are to be looked for
        self._start_timeout_s = START_SECONDS
        self._stopping = False

    def add(self, spec: BrokerSpec, node: Node) -> None:
        """Note a broker of this cluster, and the Ray node that has its data directory."""
        with self._placing:
            self._specs[spec.broker_id] = (spec, node)

    def tell_otherwise(self, changed: Callable[[BrokerSpec, Node], BrokerSpec]) -> None:
        """Have brokers told something else whenever they are started from now on."""
        with self._placing:
            for broker_id, (spec, node) in self._specs.items():
                self._specs[broker_id] = (changed(spec, node), node)

    def told(self, broker_id: int) -> BrokerSpec:
        """The spec that a broker is started with next."""
        return self._specs[broker_id][0]

    def tell_monitor_otherwise(self, spec: MonitorSpec) -> None:
        """Have the Monitor told something else whenever it is started from now on."""
        self._monitor = spec

    def adopt(self) -> None:
        """After a restart of the controller: find the brokers its predecessor started."""
        for name in self._running("broker"):
            self._brokers[int(name.split("-")[1])] = name

    def take_over(self) -> None:
        """Begin for the next controller, which this process is, perhaps not for the first time: as after a restart.

        It forgets the starts that were under way for an earlier one: brokers say what they need.
        """
        self._brokers.clear()
        self._starting.clear()
        self._heard.clear()
        self._said.clear()
        self._shards = ShardStarts()
        self._stopping = False
        self.adopt()

    def rest(self) -> None:
        """Start nothing any more, because another process is the controller now."""
        self._stopping = True

    def _running(self, kind: str) -> list[str]:
        """The names of the brokers or shards of this cluster that Ray knows."""
        return [name for name in self._actors.names() if name.split("-")[0] == kind]

    # --- brokers ---

    def start_broker(self, broker_id: int) -> None:
        """Start a broker's process, at the port it had before."""
        self._work.put(partial(self._start_broker, broker_id))

    def _start_broker(self, broker_id: int) -> None:
        if self._stopping:
            return
        try:
            replaced = self._brokers.pop(broker_id, None)
            if replaced is not None:
                self._actors.kill(replaced)  # it was asked for twice, but only one process can have the data
            self._start_on_its_node(broker_id)
        except Exception as error:  # also Ray's own, if it is busy
            self._not_started(broker_id, last_line(error))

    def leaving(self, alive: Collection[Node]) -> Collection[str]:
        """Those of the living nodes that are drained. Ray is not asked about a node that is alone: it has to do."""
        return self._draining() if len(alive) > 1 else ()

    def _draining(self) -> Collection[str]:
        return self._actors.draining() or ()

    def _start_on_its_node(self, broker_id: int) -> None:
        alive = self._actors.nodes()
        leaving = self.leaving(alive)
        node, present = self._home(broker_id, alive, leaving)
        if (present is None or present.node_id in leaving) and self._owner.may_move(broker_id):
            self._owner.place_elsewhere(broker_id)
            node, present = self._home(broker_id, alive, leaving)
        if present is None:
            raise RuntimeError(f"broker {broker_id}: Ray node {node.home} with its data is gone: {_WAITS}")
        if present.node_id in leaving:  # Ray would refuse the start, again and again
            raise RuntimeError(f"broker {broker_id}: Ray node {node.home} with its data is drained: {_NEXT_NODE}")
        spec = self._note_at(broker_id, present)
        name = self._new_name(f"broker-{broker_id}")
        self._actors.start(
            Role.BROKER,
            name,
            BrokerStart(OWN, _in_rack_of(present, spec), self._namespace, self._logs).encoded(),
            staying_at(present, alive),
            lambda error: self._work.put(partial(self._ended, broker_id, name, error)),
        )
        self._brokers[broker_id] = name
        self._starting.add(name)
        self._heard[broker_id] = self._clock.monotonic()
        self._watch(broker_id, name)

    def _new_name(self, kind: str) -> str:
        """A name that no actor has had: an earlier controller was another process, and has another id if elsewhere."""
        self._number += 1
        return f"{kind}-{self._starter}-{self._number}"

    def _home(self, broker_id: int, alive: list[Node], leaving: Collection[str]) -> tuple[Node, Node | None]:
        """The node of a broker as it was noted, and the living one that has its disk now."""
        node = self._specs[broker_id][1]
        return node, successor(node, alive, leaving)

    def move_broker(self, broker_id: int) -> None:
        """Have a broker that was replaced started on another node from now on."""
        self._work.put(partial(self._owner.place_elsewhere, broker_id))

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
            if self._home(broker_id, self._actors.nodes(), ())[1] is None:
                self._homeless.add(broker_id)

    def _note_at(self, broker_id: int, present: Node) -> BrokerSpec:
        with self._placing:
            spec, node = self._specs[broker_id]
            spec = spec.moved(node.address, present.address)
            self._specs[broker_id] = (spec, present)
        return spec

    def _not_started(self, broker_id: int, reason: str) -> None:
        level = logging.DEBUG if self._said.get(broker_id) == reason else logging.ERROR  # once for each reason
        self._said[broker_id] = reason
        log.log(level, "broker %d did not start: %s", broker_id, reason, extra=about(broker=broker_id))
        self._owner.start_failed(broker_id, reason)

    def _watch(self, broker_id: int, name: str) -> None:
        """Give a start up of which nothing has been heard for too long. Recovery may take as long as it takes."""
        if name not in self._starting or self._stopping:  # another controller may have had it join
            return
        left = self._heard[broker_id] + self._start_timeout_s - self._clock.monotonic()
        if left > 0:
            self._work.later(left, partial(self._watch, broker_id, name))
        elif self._over(broker_id, name):
            self._actors.kill(name)
            self._not_started(broker_id, f"broker {broker_id}: {_SILENT.format(self._start_timeout_s)}")

    def _ended(self, broker_id: int, name: str, error: BaseException | None) -> None:
        """A broker's process has ended. Once it has registered, the end of its connection says so first."""
        if name in self._starting and not self._stopping and self._over(broker_id, name):
            cause = getattr(error, "cause", None)
            self._not_started(broker_id, last_line(cause or error or RuntimeError("it stopped before it served")))

    def _over(self, broker_id: int, name: str) -> bool:
        """Take a start for ended. Returns whether that was unexpected, and not done on purpose."""
        self._starting.discard(name)
        return self._brokers.get(broker_id) == name

    def is_starting(self) -> bool:
        """True while a broker's process that was started has neither registered nor failed to."""
        return bool(self._starting)

    def heard(self, broker_id: int) -> None:
        """A broker that was started lives; it has not registered yet."""
        self._heard[broker_id] = self._clock.monotonic()

    def registered(self, broker_id: int, ports: Mapping[str, int]) -> None:
        """A broker has registered; it listens at these ports, as the next process of this broker is to do, too.

        A controller that has begun to lead may not have its spec yet: the metadata has the ports, too.
        """
        self._starting.discard(self._brokers.get(broker_id, ""))
        self._said.pop(broker_id, None)
        with self._placing:
            if (placed := self._specs.get(broker_id)) is not None:
                spec, node = placed
                self._specs[broker_id] = (spec.at_ports(ports), node)
        self._work.put(partial(self._look_where, broker_id))

    def _look_where(self, broker_id: int) -> None:
        """Note another node with a broker's disk, if its own has gone: Ray may have started it on the next one."""
        with suppress(Exception):  # Ray is away, or busy
            node = self._specs[broker_id][1]
            self._note_at(broker_id, successor(node, self._actors.nodes()) or node)

    def kill_broker(self, broker_id: int) -> None:
        """End a broker's process at once."""
        self._work.put(partial(self._shards.forget, broker_id))
        name = self._brokers.pop(broker_id, None)
        if name is not None:
            self._work.put(partial(self._actors.kill, name))

    def look_at(self, broker_id: int, pid: int, started: int) -> Sight | None:
        """The state of a broker's process; None if it is gone, or on another Ray node than this controller."""
        placed = self._specs.get(broker_id)
        return look(pid, started) if placed is not None and placed[1].node_id == self._node_id else None

    def node_of(self, broker_id: int) -> str:
        """The id of the Ray node that a broker runs on; empty if no such broker was ever placed."""
        placed = self._specs.get(broker_id)
        return "" if placed is None else placed[1].node_id

    def nodes(self) -> set[str]:
        """The Ray nodes that brokers are on, as far as that is known."""
        with self._placing:
            return {node.node_id for _, node in self._specs.values()} - {""}

    def start_nothing_on(self, nodes: Collection[str]) -> None:
        """Start no more processes on these Ray nodes, which are drained; on those that no longer are, what was owed."""
        if self._drained != (now := frozenset(nodes)):
            self._drained = now
            self._work.put(self._start_more)

    # --- shards ---

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
        while not self._stopping and (broker_id := self._shards.next(held)) is not None:
            self._start_shard(broker_id)

    def _start_shard(self, broker_id: int) -> None:
        spec, node = self._specs[broker_id]
        name = self._new_name(f"shard-{broker_id}")
        niceness = BrokerConfig.from_mapping(spec.config).integer("coterie.process.niceness")
        self._actors.start(
            Role.SHARD,
            name,
            ShardStart(OWN, spec.socket_path, name, self._logs, broker_id, niceness).encoded(),
            beside(node.node_id),  # waiting for the next node there, it would take the turn of others
            lambda error: self._work.put(partial(self._shard_ended, broker_id, name, error)),
        )
        self._shards.begun(broker_id, name)
        self._work.later(self._start_timeout_s, partial(self._end_silent_shard, name))

    def _end_silent_shard(self, name: str) -> None:
        """End a process that has not come to any broker: Ray may not have started it. Others wait for its turn."""
        if self._shards.under_way(name) and not self._stopping:
            self._actors.kill(name)

    def _shard_ended(self, broker_id: int, name: str, error: BaseException | None) -> None:
        if not self._shards.under_way(name) or self._stopping:
            return
        cause = getattr(error, "cause", None) or error or "no broker took it"
        log.error("a shard process of broker %d did not start: %s", broker_id, cause, extra=about(broker=broker_id))
        self._look_where(broker_id)
        # The broker asks again. A machine that cannot start processes should not be busy with that all the time.
        drained = self.node_of(broker_id) in self._draining()  # Ray starts nothing there any more
        pause_s = _DRAINED_SHARD_SECONDS if drained else _FAILED_SHARD_SECONDS
        self._work.later(pause_s, partial(self._give_up_shard, name))

    def _give_up_shard(self, name: str) -> None:
        self._shards.over(name)
        self._start_more()

    # --- the Monitor ---

    def start_monitor(self) -> None:
        """Start the cluster's Monitor; one that runs is ended first."""
        self._work.put(self._start_monitor)

    def _start_monitor(self) -> None:
        spec = self._monitor
        if self._stopping or spec is None or self._node_id in self._drained:
            return
        self._actors.kill(_MONITOR)
        self._actors.start(
            Role.MONITOR,
            _MONITOR,
            MonitorStart(OWN, spec, self._logs).encoded(),
            beside(self._node_id),
            lambda error: None,  # the end of its connection says so
        )

    # --- the cluster's start and end ---

    def expect_short_starts(self, timeout_s: float) -> None:
        """A program waits for the cluster's start: a process is given up after this time without a sign of life."""
        self._start_timeout_s = timeout_s

    def expect_long_starts(self) -> None:
        """The cluster has started: nobody waits for the next start of a process."""
        self._start_timeout_s = START_SECONDS

    def start_no_more(self) -> None:
        """Start no process any more."""
        self._stopping = True
        idle = threading.Event()
        self._work.put(idle.set)  # after that, all that is being started is in the tables
        idle.wait(1.0)

    def end(self) -> None:
        """End all processes."""
        brokers, self._brokers = list(self._brokers.values()), {}
        for name in (*brokers, *self._running("shard"), _MONITOR):
            self._actors.kill(name)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Names that methods of controllers of earlier builds look for here."""
        if name == "__path__":  # every import from here asks for it
            raise AttributeError(name)
        from actors.controller import earlier_builds

        return earlier_builds.found(__name__, name)
