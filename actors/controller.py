"""Controller: the Ray actor around a ControllerServer, and the only place that starts brokers and shard processes.

Its metadata log survives it: when Ray restarts it, the same arguments lead to the same log, and the brokers, which
went on serving, register again.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.broker import Broker
from actors.broker_server import BrokerSpec
from actors.controller_server import ControllerServer
from actors.log.files import write_atomically
from actors.metadata_log import MetadataLog
from actors.offsets_partition import OffsetsPartition
from actors.process import LoopThread, check_code_version, last_line, log_to
from actors.settings import BrokerConfig
from placement.nodes import Node, alive_nodes, place_brokers, successor

T = TypeVar("T")

log = logging.getLogger(__name__)

_START_SECONDS = 60.0  # a process that is started says something within it
_FAILED_SHARD_SECONDS = 1.0
_HAND_OVER_SECONDS = 30.0
_FAILED_RESTART_SECONDS = 2.0
_ANY_HOST = ("0.0.0.0", "::")  # to listen on; nobody can be told to connect there
_SILENT = "Ray has not started its process, or this does not answer, for {:.0f} s; see `ray status`, and memory"
_SHARDS_AT_ONCE = 4  # processes being started; more only make each other slow


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """What a controller is told when it is started. `secret_file` never travels, only its name does."""

    name: str
    data_dir: str
    host: str | None
    """Where brokers listen; None: at the address of their Ray node."""
    brokers: int
    port: int
    """Of broker 0; the others have the ports after it. 0: any free ones."""
    socket_dir: str
    secret_file: str
    config: dict[str, str]
    version: str

    @property
    def namespace(self) -> str:
        return f"coterie-{self.name}"

    @property
    def log_dir(self) -> str:
        return str(Path(self.data_dir) / "logs")

    @property
    def homes_file(self) -> Path:
        """Remembers where each broker's data is: broker id -> [Ray node's address, port]."""
        return Path(self.data_dir) / "controller" / "homes.json"


@dataclass(frozen=True, slots=True)
class Listeners:
    """What `listeners` and `advertised.listeners` say, where those are set. Ports are broker 0's."""

    bind_host: str | None = None
    bind_port: int | None = None
    advertised_host: str | None = None
    advertised_port: int | None = None

    @classmethod
    def of(cls, config: BrokerConfig) -> Listeners:
        def address(key: str) -> tuple[str | None, int | None]:
            values = config.items_of(key) if key in config.explicit else ()
            if not values:
                return None, None
            host, _, port = values[0].removeprefix("PLAINTEXT://").rpartition(":")
            return host.strip("[]"), int(port)

        bind_host, bind_port = address("listeners")
        advertised_host, advertised_port = address("advertised.listeners")
        # An empty host means every interface.
        return cls("0.0.0.0" if bind_host == "" else bind_host, bind_port, advertised_host or None, advertised_port)


def _in_rack_of(node: Node, spec: BrokerSpec) -> BrokerSpec:
    """The broker as it runs on a Ray node, whose rack goes before the one all brokers are given."""
    return spec if node.rack is None else replace(spec, config={**spec.config, "broker.rack": node.rack})


class RayLauncher:
    """Starts and ends broker and shard actors. Called from the controller's loop, which it never blocks.

    All calls to Ray are made in one thread, in the order asked for. None is made, and nothing is waited for, in Ray's
    own callbacks: those run where Ray takes in its answers, and two of them would wait for each other.
    """

    def __init__(self, spec: ControllerSpec) -> None:
        self._spec = spec
        self._brokers: dict[int, Any] = {}
        self._specs: dict[int, tuple[BrokerSpec, Node]] = {}
        self._incarnations: dict[int, int] = {}
        self._starting: dict[int, int] = {}
        self._owed: dict[int, int] = {}
        self._shard_number = 0
        self.start_failed: Callable[[int], None] = lambda broker_id: None
        self.errors: dict[int, str] = {}
        self.start_timeout_s = _START_SECONDS
        self.starts_under_way: set[Any] = set()
        self.stopping = False
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._run, name="coterie-launcher", daemon=True).start()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            try:
                work()
            except Exception:
                log.exception("starting or ending a process")

    def add(self, spec: BrokerSpec, node: Node) -> None:
        """A broker of this cluster, and the Ray node its data directory is on."""
        self._specs[spec.broker_id] = (spec, node)

    def adopt(self) -> None:
        """After a restart of the controller: find the brokers its predecessor started."""
        self._brokers.update(self._running("broker"))

    def _running(self, kind: str) -> list[tuple[int, Any]]:
        """The brokers or shards of this cluster that Ray knows, each with the id of its broker."""
        found = []
        for entry in ray.util.list_named_actors(all_namespaces=True):
            name = entry["name"].split("-")
            if entry["namespace"] == self._spec.namespace and name[0] == kind:
                with suppress(ValueError):  # it has died meanwhile
                    found.append((int(name[1]), ray.get_actor(entry["name"], namespace=self._spec.namespace)))
        return found

    def start_broker(self, broker_id: int) -> None:
        """Start a broker's process; its port stays what it was."""
        self._work.put(partial(self._start_broker, broker_id))

    def _start_broker(self, broker_id: int) -> None:
        if self.stopping:
            return
        try:
            replaced = self._brokers.pop(broker_id, None)
            if replaced is not None:
                ray.kill(replaced)  # asked for twice: only one process can have the data
            self._start_on_its_node(broker_id)
        except Exception as error:  # Ray's, which may be busy, too
            self._not_started(broker_id, last_line(error))

    def _start_on_its_node(self, broker_id: int) -> None:
        spec, node = self._specs[broker_id]
        present = successor(node, alive_nodes())
        if present is None:
            raise RuntimeError(f"broker {broker_id}: Ray node {node.address} with its data is gone")
        self._specs[broker_id] = (spec, present)
        number = self._incarnations[broker_id] = self._incarnations.get(broker_id, 0) + 1
        actor = Broker.options(  # type: ignore[attr-defined]
            name=f"broker-{broker_id}-{os.getpid()}-{number}",
            namespace=self._spec.namespace,
            lifetime="detached",
            scheduling_strategy=NodeAffinitySchedulingStrategy(present.node_id, soft=False),
        ).remote(_in_rack_of(present, spec), self._spec.namespace, self._spec.log_dir, self._spec.version)
        self._brokers[broker_id] = actor
        self.starts_under_way.add(actor)
        threading.Thread(target=self._await_broker, args=(broker_id, actor), daemon=True).start()

    def _not_started(self, broker_id: int, reason: str) -> None:
        self.errors[broker_id] = reason
        log.error("broker %d did not start: %s", broker_id, reason)
        self.start_failed(broker_id)

    def _await_broker(self, broker_id: int, actor: Any) -> None:
        try:
            started = self._started(actor)
        except Exception as error:
            if self._brokers.get(broker_id) is not actor:
                return  # it was ended on purpose
            cause = getattr(error, "cause", None)
            reason = last_line(cause if cause is not None else error)
            if isinstance(error, ray.exceptions.GetTimeoutError):
                self._work.put(partial(ray.kill, actor))
                reason = f"broker {broker_id}: {_SILENT.format(self.start_timeout_s)}"
            self._not_started(broker_id, reason)
            return
        finally:
            self.starts_under_way.discard(actor)
        if self._brokers.get(broker_id) is actor:
            self.errors.pop(broker_id, None)
            spec, node = self._specs[broker_id]
            self._specs[broker_id] = (replace(spec, port=started["port"]), node)

    def _started(self, actor: Any) -> dict[str, Any]:
        """What a broker's start returns. It may recover for as long as it takes, while its process answers.

        GetTimeoutError when Ray does not start the process, or the process does not answer.
        """
        ref = actor.start.remote()
        while True:
            with suppress(ray.exceptions.RayTaskError):  # an answer, too
                ray.get(actor.status.remote(), timeout=self.start_timeout_s)
            done, _ = ray.wait([ref], timeout=self.start_timeout_s / 2)
            if done:
                found: dict[str, Any] = ray.get(ref)
                return found

    def close_broker(self, broker_id: int) -> None:
        """Have a broker hand over what it leads, and close it. Raises RuntimeError. Not for the controller's loop."""
        actor = self._brokers.get(broker_id)
        if actor is None:
            raise RuntimeError(f"broker {broker_id} does not run")
        try:
            ray.get(actor.hand_over.remote(), timeout=_HAND_OVER_SECONDS)
            # A broker that hangs up has closed its logs, and its process is ended, perhaps before the answer is out.
            with suppress(ray.exceptions.ActorDiedError):
                ray.get(actor.stop.remote(), timeout=_HAND_OVER_SECONDS)
        except ray.exceptions.RayError as error:
            raise RuntimeError(f"broker {broker_id} could not be closed: {last_line(error)}") from error

    def kill_broker(self, broker_id: int) -> None:
        """End a broker's process, however it is doing."""
        actor = self._brokers.pop(broker_id, None)
        if actor is not None:
            self._work.put(partial(ray.kill, actor))

    def start_shards(self, broker_id: int, count: int) -> None:
        """See to it that `count` shard processes are on their way to a broker, a few at a time."""
        self._work.put(partial(self._owe, broker_id, count))

    def _owe(self, broker_id: int, count: int) -> None:
        self._owed[broker_id] = count - self._starting.get(broker_id, 0)
        self._start_more()

    def _start_more(self) -> None:
        for broker_id in self._owed:
            while self._owed[broker_id] > 0 and sum(self._starting.values()) < _SHARDS_AT_ONCE and not self.stopping:
                self._owed[broker_id] -= 1
                self._start_shard(broker_id)

    def _start_shard(self, broker_id: int) -> None:
        spec, node = self._specs[broker_id]
        self._shard_number += 1
        name = f"shard-{broker_id}-{os.getpid()}-{self._shard_number}"
        actor = OffsetsPartition.options(  # type: ignore[attr-defined]
            name=name,
            namespace=self._spec.namespace,
            lifetime="detached",
            scheduling_strategy=NodeAffinitySchedulingStrategy(node.node_id, soft=False),
        ).remote(spec.socket_path, self._spec.log_dir, f"shards-of-{broker_id}", self._spec.version)
        actor.describe.remote().future().add_done_callback(
            lambda future: self._work.put(partial(self._shard_started, broker_id, future))
        )
        self._starting[broker_id] = self._starting.get(broker_id, 0) + 1

    def _shard_started(self, broker_id: int, future: Any) -> None:
        if future.exception() is None or self.stopping:
            self._shard_done(broker_id)
            return
        log.error("a shard process of broker %d did not start: %s", broker_id, future.exception())
        # The broker keeps asking: a machine that cannot start processes is not to be kept busy with it.
        retry = threading.Timer(_FAILED_SHARD_SECONDS, self._work.put, (partial(self._shard_done, broker_id),))
        retry.daemon = True
        retry.start()

    def _shard_done(self, broker_id: int) -> None:
        self._starting[broker_id] -= 1
        self._start_more()

    def stop(self, timeout_s: float) -> None:
        """Close all brokers, then end all processes."""
        self.stopping = True
        idle = threading.Event()
        self._work.put(idle.set)  # what is being started is in the tables then
        idle.wait(1.0)
        brokers, self._brokers = list(self._brokers.values()), {}
        if brokers:
            ray.wait([actor.stop.remote() for actor in brokers], num_returns=len(brokers), timeout=timeout_s)
        for actor in brokers:
            ray.kill(actor)
        for _, actor in self._running("shard"):
            ray.kill(actor)

    def statuses(self) -> list[dict[str, Any]]:
        """What the brokers say of themselves; those that do not answer in 2 s are left out."""
        asked = [actor.status.remote() for actor in list(self._brokers.values())]
        found, _ = ray.wait(asked, num_returns=len(asked), timeout=2) if asked else ([], [])
        answers = []
        for ref in found:
            with suppress(ray.exceptions.RayError):  # it has died since
                answers.append(ray.get(ref))
        return answers


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=8)
class Controller:
    """The one controller of a cluster, called `controller` in the cluster's namespace."""

    def __init__(self, spec: ControllerSpec) -> None:
        self._restarted = True  # unless Ray says that it is not so
        try:
            self._restarted = bool(ray.get_runtime_context().was_current_actor_reconstructed)
            self._begin(spec)
        except Exception:
            if not self._restarted:
                raise  # who starts the cluster sees why it cannot be
            # An exception is the end of the actor for Ray, which does not try again. The end of its process is not.
            log.exception("this controller cannot start; the next one will try")
            time.sleep(_FAILED_RESTART_SECONDS)
            os._exit(1)

    def _begin(self, spec: ControllerSpec) -> None:
        check_code_version(spec.version)
        log_to(spec.log_dir, "controller")
        self._spec = spec
        self._address = ray.util.get_node_ip_address() if spec.host is None else spec.host
        self._secret = bytes.fromhex(Path(spec.secret_file).read_text())
        self._adding = threading.Lock()
        self._thread = LoopThread("coterie-controller")
        self._launcher = RayLauncher(spec)
        metadata_log = MetadataLog(Path(spec.data_dir) / "controller" / "metadata.log")
        config = BrokerConfig.from_mapping(spec.config)
        self._server = ControllerServer(metadata_log, config, self._secret, self._launcher, self._thread.loop)
        self._launcher.start_failed = lambda broker_id: self._on_loop(self._server.start_failed, broker_id)
        self._port = self._thread.call(self._server.listen(self._address))
        if self._restarted:
            self._launcher.adopt()
            self._on_loop(self._server.expect, self._place_brokers(spec.brokers, may_be_away=True))

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        self._thread.loop.call_soon_threadsafe(call, *arguments)

    def _ask(self, call: Callable[..., T], *arguments: Any) -> T:
        """What a call returns on the loop, where nothing changes meanwhile."""

        async def on_loop() -> T:
            return call(*arguments)

        return self._thread.call(on_loop())

    def join_info(self) -> tuple[str, int, bytes]:
        """Where brokers find this controller, and the secret both prove they know."""
        return self._address, self._port, self._secret

    def _place_brokers(self, count: int, only: Sequence[int] | None = None, *, may_be_away: bool = False) -> list[int]:
        """Place the brokers on Ray nodes; one with data goes back to where the data is. `only`: the others run."""
        spec = self._spec
        homes: dict[str, tuple[str, int]] = {}
        if spec.homes_file.exists():
            homes = json.loads(spec.homes_file.read_text())
        known = {int(broker_id): home[0] for broker_id, home in homes.items()}
        if spec.host is not None:
            known = {}  # a cluster on one machine: addresses of Ray's do not matter
        nodes = place_brokers(alive_nodes(), known, max(count, len(homes)), may_be_away=may_be_away)
        listeners = Listeners.of(BrokerConfig.from_mapping(spec.config))
        for broker_id, node in nodes.items():
            if only is not None and broker_id not in only:
                continue
            host = listeners.bind_host or spec.host or node.address
            port = spec.port + broker_id if spec.port else self._present_port(broker_id)
            self._launcher.add(
                BrokerSpec(
                    broker_id=broker_id,
                    bind_host=host,
                    advertised_host=listeners.advertised_host or (node.address if host in _ANY_HOST else host),
                    port=port,
                    advertised_port=listeners.advertised_port + broker_id if listeners.advertised_port else 0,
                    data_dir=str(Path(spec.data_dir) / f"broker-{broker_id}"),
                    socket_path=str(Path(spec.socket_dir) / f"{broker_id}.sock"),
                    config=spec.config,
                ),
                node,
            )
        text = json.dumps({str(b): [node.address, spec.port] for b, node in nodes.items()})
        write_atomically(spec.homes_file, text.encode())
        return sorted(nodes)

    def _present_port(self, broker_id: int) -> int:
        """The port of an adopted broker, so that clients find its successor where they know it; 0 for a new one."""
        known = self._server.metadata.brokers.get(broker_id) if self._restarted else None
        return known.port if known is not None else 0

    def start_brokers(self, timeout_s: float) -> list[tuple[str, int]]:
        """Start the cluster's brokers; returns the clients' addresses when all serve.

        Raises RuntimeError with the first broker's reason if one does not come up, or says nothing for `timeout_s`.
        """
        self._launcher.start_timeout_s = timeout_s
        ids = self._place_brokers(self._spec.brokers)
        self._ask(self._server.start, ids)
        try:
            self._wait_for_brokers(timeout_s, ids)
        except RuntimeError:
            self._server.stopping = True  # what has failed is not tried again while it is being taken down
            raise
        self._launcher.start_timeout_s = _START_SECONDS
        return self.addresses()

    def restart_broker(self, broker_id: int, timeout_s: float) -> None:
        """Have others lead what a broker leads, close it, start it again, and wait until it is in sync everywhere.

        Raises RuntimeError if there is no such broker, or it does not come back in time.
        """
        known = self._server.metadata.brokers.get(broker_id)
        if known is None:
            raise RuntimeError(f"there is no broker {broker_id}")
        self._launcher.close_broker(broker_id)
        came_back = partial(self._ask, self._is_back, broker_id, known.epoch)
        self._wait(came_back, timeout_s, f"broker {broker_id} did not come back")

    def _is_back(self, broker_id: int, since_epoch: int) -> bool:
        broker = self._server.metadata.brokers[broker_id]
        return broker.alive and broker.epoch > since_epoch and self._server.in_sync_everywhere(broker_id)

    def elect_preferred(self) -> None:
        """Have the first replica of each partition lead it, where that one is in sync."""
        self._on_loop(self._server.elect_preferred)

    def add_brokers(self, count: int, timeout_s: float) -> list[int]:
        """Start `count` more brokers; their ids, once they serve. Raises RuntimeError if one does not come up."""
        with self._adding:
            first = self._ask(self._server.next_id)
            ids = list(range(first, first + count))
            self._place_brokers(ids[-1] + 1, ids, may_be_away=True)
            self._ask(self._server.add, ids)
        self._wait_for_brokers(timeout_s, ids)
        return ids

    def _wait(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{what} within {timeout_s:.0f} s; see {self._spec.log_dir}")
            time.sleep(0.02)

    def _wait_for_brokers(self, timeout_s: float, ids: Sequence[int]) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._ask(self._server.ready, ids):
            reason = next((error for broker_id in ids if (error := self._launcher.errors.get(broker_id))), None)
            if reason is not None:
                raise RuntimeError(reason)
            if self._launcher.starts_under_way:  # which has deadlines of its own
                deadline = time.monotonic() + timeout_s
            elif time.monotonic() > deadline:
                raise RuntimeError(f"the brokers did not come up within {timeout_s:.0f} s; see {self._spec.log_dir}")
            time.sleep(0.02)

    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each broker, by id. Not asked of the loop, which may stand still: it says that we live."""
        return [(b.host, b.port) for _, b in sorted(self._server.metadata.brokers.items())]

    def status(self) -> dict[str, Any]:
        """The cluster as `coterie status` shows it."""
        found = self._ask(self._server.status)
        found["name"] = self._spec.name
        found["data_dir"] = self._spec.data_dir
        by_id = {status["broker_id"]: status for status in self._launcher.statuses()}
        for broker in found["brokers"]:
            broker.update({k: v for k, v in by_id.get(broker["id"], {}).items() if k in ("shards", "node_id")})
        found["controller_pid"] = os.getpid()
        found["controller_node_id"] = ray.get_runtime_context().get_node_id()
        return found

    def stop(self) -> None:
        """End the brokers and shards; the caller ends this actor."""
        self._server.stopping = True
        self._launcher.stop(3.0)
        shutil.rmtree(self._spec.socket_dir, ignore_errors=True)
