"""Controller: the Ray actor around a ActiveController.

Its metadata log survives it. When Ray restarts it, it has the same arguments and finds the same log. The brokers, which
have gone on serving, register again.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import ray

from actors.broker.spec import BrokerSpec
from actors.controller import first_users, new_secret, ray_head, settings_in_force
from actors.controller.decisions.acls import locked_out
from actors.controller.doors import DoorPlan, doors_of, plan_doors
from actors.controller.from_files import records_of_files
from actors.controller.homes import Homes, noted_in
from actors.controller.metadata.standalone import StandaloneLog
from actors.controller.pool_seals import PoolSeals
from actors.controller.securing import AUTHORITY, write_authority
from actors.controller.settings_in_force import Changed
from actors.links.codec import Codec
from actors.links.control import Stop
from actors.links.group_status import GroupStatus
from actors.links.operations import HandOver, LookAtGroup, Operation, Result
from actors.links.pool_seals import Answer, Wish
from actors.links.pools import PoolFigures
from actors.links.removals import RemovalOutlook
from actors.links.replacements import Outlook
from actors.links.secret import Marks, Secrets, read_secrets
from actors.links.status import ClusterStatus
from actors.links.versions import Spoken, check_starter
from actors.log.unusable import why_unusable
from actors.monitor.spec import MonitorSpec
from actors.runtime import priority
from actors.runtime.data_folder import place_of
from actors.runtime.logs import TEXT, LogPlace
from actors.runtime.private import keep_private, leave_no_core
from actors.runtime.process import LoopThread, last_line, log_to
from actors.runtime.ray_connection import ClusterError, asks_for_token
from actors.runtime.ray_nodes import told_draining_nodes
from actors.settings import ANY_HOST, LISTENERS, BrokerConfig
from placement.nodes import Node, alive_nodes, place_brokers, with_disk_of
from placement.records import Record

if TYPE_CHECKING:  # drivers do not import what a controller works with: they would start later
    from actors.controller.active import ActiveController

T = TypeVar("T")
R = TypeVar("R", bound=Result)

log = logging.getLogger(__name__)

_FAILED_RESTART_SECONDS = 2.0
_FAILING_SECONDS = 5.0  # a broker may try to start for so long before its failure is reported
_HAND_OVER_SECONDS = 30.0
_SHARDS_SECONDS = 2.0
_LOOK_SECONDS = 5.0
_STOP_SECONDS = 3.0
_EARLIER_MONITOR_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class ControllerSpec:
    """The arguments of a controller's start. Of the secret only the file's name is sent."""

    name: str
    data_dir: str
    host: str | None
    """The address brokers listen at; None: that of their Ray node."""
    brokers: int
    port: int | None
    """The port of broker 0; the others have the ports after it. 0 means any free ones, None those of `listeners`."""
    socket_dir: str
    secret_file: str
    config: dict[str, str]
    version: str
    transition: Mapping[str, str] = field(default_factory=dict)
    """Settings that hold over `config` until the next change of settings (`settings_in_force`)."""
    everywhere: bool = True
    """True if no broker runs with settings from before."""
    former: Mapping[str, str] = field(default_factory=dict, metadata={"since": 3})
    """Settings from before by which brokers may still go, where the controller must go by them, too."""

    def with_settings(self, changed: Changed) -> ControllerSpec:
        """The same with settings that were changed while the cluster runs. The port of `listeners` holds, if set."""
        port = None if LISTENERS in changed.config else self.port
        return replace(
            self,
            config=dict(changed.config),
            transition=changed.transition,
            everywhere=changed.everywhere,
            former=changed.former,
            port=port,
        )

    @property
    def effective(self) -> dict[str, str]:
        """The settings that processes are told."""
        return {**self.config, **self.transition}

    @property
    def of_controller(self) -> BrokerConfig:
        """The settings that the controller goes by. It waits for brokers that run with those from before."""
        former = getattr(self, "former", {})  # in an upgrade, a controller of an earlier build does not tell it
        return BrokerConfig.from_mapping({**self.effective, **former})

    @property
    def namespace(self) -> str:
        return f"coterie-{self.name}"

    def own_host(self, node_address: str) -> str:
        """The address where a process on this node listens for the cluster's other processes; never a wildcard."""
        return node_address if self.host is None or self.host in ANY_HOST else self.host

    @property
    def log_dir(self) -> str:
        return str(Path(self.data_dir) / "logs")

    @property
    def homes_file(self) -> Path:
        """The file that says where each broker's data is: broker id -> [its Ray node's address, port, label]."""
        return Path(self.data_dir) / "controller" / "homes.json"


@dataclass(frozen=True, slots=True)
class ControllerStart:
    """All that a controller's actor is told: by a process that speaks `starter`. Ray tells it the same at a restart.

    It goes through Ray as bytes of a codec: when the process is restarted, another build may be installed.
    """

    starter: Spoken
    spec: ControllerSpec

    def encoded(self) -> bytes:
        """As it goes through Ray."""
        return _CODEC.encode(self)

    @classmethod
    def decoded(cls, told: bytes) -> Self:
        """The inverse of `encoded`. Raises LinkError."""
        return _CODEC.read(cls, told)


_CODEC: Final[Codec[ControllerStart]] = Codec("start", {1: ControllerStart})


def _told(plans: tuple[DoorPlan, ...], spec: ControllerSpec, broker: BrokerSpec, node: Node) -> BrokerSpec:
    """The broker's spec with these doors and settings. A port that nothing chooses stays as it is."""
    present = {door.listener: door.port for door in broker.doors}
    return replace(broker, doors=doors_of(plans, broker.broker_id, node.address, present), config=spec.effective)


def _home(address: str, _port: int, name: str = "", *_: Any) -> Node:
    """A line of homes.json, for controllers that earlier builds have started (see `actors.controller.server`)."""
    return Node("", address, 0.0, name=name)


def _monitor_of(spec: ControllerSpec) -> MonitorSpec:
    return MonitorSpec(spec.name, spec.namespace, spec.data_dir, spec.secret_file, spec.effective)


async def _close_broker(server: ActiveController, broker_id: int) -> None:
    session = server.brokers.get(broker_id)
    if session is None:
        raise ConnectionError("it does not run")
    await session.calls.ask(HandOver(), _HAND_OVER_SECONDS)
    session.protocol.send(Stop())


async def _look(server: ActiveController) -> ClusterStatus:
    from actors.controller.reports import with_shards
    from actors.controller.sessions import shards_of

    shards = await shards_of(server.brokers.values(), _SHARDS_SECONDS)
    return with_shards(server.status(), server.metadata, shards, server.absence)


async def _look_at_group(server: ActiveController, broker_id: int, group_id: str) -> GroupStatus | None:
    session = server.brokers.get(broker_id)
    if session is not None:
        with suppress(OSError, TimeoutError):
            return (await session.calls.ask(LookAtGroup(group_id), _LOOK_SECONDS)).status
    return None


# No method of an actor class may be a coroutine: Ray would then run all of them on one loop, one at a time.
@ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=8)
class Controller:
    """The one controller of a cluster, called `controller` in the cluster's namespace. `told` is a ControllerStart."""

    def __init__(self, told: bytes) -> None:
        self._restarted = True  # unless Ray says that it is not so
        try:
            self._restarted = bool(ray.get_runtime_context().was_current_actor_reconstructed)
            start = ControllerStart.decoded(told)
            check_starter(start.starter)
            self._begin(start.spec)
        except Exception:  # of a bug, too: Ray gives an actor up that raises
            if not self._restarted:
                raise  # whoever starts the cluster is told why it cannot
            # If its process ends instead, Ray starts it again.
            log.exception("this controller cannot start; the next one will try")
            time.sleep(_FAILED_RESTART_SECONDS)
            os._exit(1)

    def _begin(self, spec: ControllerSpec) -> None:
        from actors.controller.acceptor import InForce
        from actors.controller.draining import DrainLook
        from actors.controller.launcher import RayLauncher
        from actors.controller.node import alone

        keep_private()
        folder = Path(spec.data_dir)
        self._first_spec = spec
        if not self._restarted:
            settings_in_force.drop(folder)
        elif (changed := settings_in_force.kept(folder)) is not None:
            spec = spec.with_settings(changed)
        config = BrokerConfig.from_mapping(spec.effective)
        priority.ask(config.integer("coterie.process.niceness"))
        if not config.boolean("coterie.debug.core"):
            leave_no_core()
        logs = LogPlace(spec.log_dir, spec.name, config.text("coterie.log.format") or TEXT)
        log_to(logs, "controller", role="controller")
        self._spec = spec
        self._address = spec.own_host(ray.util.get_node_ip_address())
        secrets = read_secrets(Path(spec.secret_file))
        self._adding = threading.Lock()
        self._thread = LoopThread("coterie-controller")
        node_id = ray.get_runtime_context().get_node_id()
        self._launcher = RayLauncher(spec.namespace, logs, spec.version, node_id)
        path = first_users.log_path(folder)
        if self._restarted and not path.exists():  # brokers would take an empty cluster for theirs
            raise ClusterError(f"{path} is gone: this node has not the disk of the one that the controller was on")
        try:
            metadata_log = StandaloneLog(path)
            first_users.take(folder, metadata_log)
        except OSError as error:
            raise ClusterError(why_unusable(folder, error)) from error
        wrong = None if self._restarted else locked_out(metadata_log.decided, config)
        if wrong is not None:
            metadata_log.close()
            raise ClusterError(wrong)
        self._settings = settings_in_force.KeptSettings(folder, lambda: metadata_log.decided, self._commit)
        if self._restarted and (changed := self._settings.kept()) is not None:
            self._spec = spec = spec.with_settings(changed)  # the file may be of another time
        process = ClusterStatus("", 0, (), spec.name, spec.data_dir, os.getpid(), node_id)
        in_force = InForce(spec.of_controller, secrets)
        self._node = alone(
            *(metadata_log, in_force, self._launcher, self._thread.loop),
            process=process,
            from_files=partial(records_of_files, folder),
            restarted=self._restarted,
        )
        self._launcher.monitor = _monitor_of(spec)
        self._launcher.may_move = self._may_move
        self._launcher.place_elsewhere = self._place_elsewhere
        self._launcher.start_failed = lambda broker_id: self._on_loop(self._server.start_failed, broker_id)
        noted = partial(self._ask, lambda: noted_in(metadata_log.decided))
        self._homes = Homes(spec.homes_file, noted, self._commit)
        self._port = self._thread.call(self._node.listen(self._address))
        if not self._restarted:
            self._settings.drop()
        self._pool_seals = PoolSeals(folder, lambda: metadata_log.decided.pools, self._server.publisher.commit)
        self._drain_look = DrainLook(self._launcher.nodes, told_draining_nodes, self._tell_drained)
        self._drain_look.start()
        if self._restarted:
            self._launcher.adopt()
            self._on_loop(self._server.monitoring.await_earlier, _EARLIER_MONITOR_SECONDS)
            self._on_loop(self._server.expect, self._place_brokers(spec.brokers, may_be_away=True))

    @property
    def _server(self) -> ActiveController:
        assert self._node.server is not None, "this node is the only controller"
        return self._node.server

    def _commit(self, records: Sequence[Record]) -> None:
        """Return when records have committed. Raises OSError, NotControllerError."""
        self._thread.call(self._server.committed(lambda: self._server.publisher.commit(records)))

    def _tell_drained(self, nodes: Mapping[str, int]) -> None:
        self._launcher.start_nothing_on(nodes)
        self._on_loop(self._server.draining.told, nodes)

    def _on_loop(self, call: Callable[..., None], *arguments: Any) -> None:
        self._thread.loop.call_soon_threadsafe(call, *arguments)

    def _ask(self, call: Callable[..., T], *arguments: Any) -> T:
        """Run `call` on the loop, so that nothing changes meanwhile; its result."""

        async def on_loop() -> T:
            return call(*arguments)

        return self._thread.call(on_loop())

    def join_info(self) -> tuple[str, int, Marks]:
        """(host, port, marks): where brokers find this controller, and which secrets are valid."""
        return self._address, self._port, self._server.secrets.marks

    def ray_asks_for_token(self) -> bool:
        """True if this Ray asks for a token: an actor has the environment of its raylet, a driver has its own."""
        return asks_for_token()

    def ray_environment(self) -> dict[str, str]:
        """The environment variables of this node's Ray that concern the GCS."""
        return ray_head.environment()

    def hand_out_secret(self, broker_id: int) -> Secrets:
        """The secrets, for a broker on a node without their files. Raises PermissionError if they may not travel so."""
        named = self._spec.config.get("coterie.secret.file")
        if named:
            raise PermissionError(f"coterie.secret.file={named} is set: no secret goes through Ray")
        if self._server.config.link_security.encrypts:
            raise PermissionError(
                f"connections between processes are in TLS (coterie.internal.security): no secret goes through Ray; "
                f"put {self._spec.secret_file} on the node of broker {broker_id}, or set coterie.secret.file"
            )
        if not self.ray_asks_for_token():
            raise PermissionError(
                f"this Ray asks for no token (RAY_AUTH_MODE): no secret goes through it; put {self._spec.secret_file} "
                f"on the node of broker {broker_id}, or set coterie.secret.file"
            )
        log.warning(
            "broker %d has no %s on its node: the secret goes through Ray, where others may ask for it. To prevent "
            "that, put the file there, or set coterie.secret.file",
            broker_id,
            self._spec.secret_file,
        )
        return self._server.secrets

    def _may_move(self, broker_id: int) -> bool:
        directory = self._server.metadata.directories.get(broker_id)
        return directory is not None and directory.awaited

    def _place_elsewhere(self, broker_id: int) -> None:
        with self._adding:
            if self._ask(self._server.replacing.moved, broker_id):
                self._place_brokers(0, [broker_id], may_be_away=True, elsewhere=broker_id)

    def _place_brokers(
        self,
        count: int,
        only: Sequence[int] | None = None,
        *,
        may_be_away: bool = False,
        elsewhere: int | None = None,
    ) -> list[int]:
        """Place brokers on Ray nodes; one that has data goes where that is. `only`: the others run already.

        `elsewhere` is a broker that has no data any more: it goes to another node than it had, if there is one.
        """
        spec = self._spec
        known = self._homes.known()
        count = max([count, *(broker_id + 1 for broker_id in known)])
        alive = alive_nodes()
        known = {b: home for b, home in known.items() if with_disk_of(home, alive) or not self._may_move(b)}
        if spec.host is not None and len({node.address for node in alive}) == 1:
            known = {}  # a cluster on one machine: addresses of Ray's do not matter
        plans = plan_doors(BrokerConfig.from_mapping(spec.effective), spec.host, spec.port)
        if not {plan.host for plan in plans} <= {None, *ANY_HOST}:
            alive = [replace(node, head=False) for node in alive]  # only this machine is sure to have that address
        leaving = set(self._launcher.leaving(alive))
        if elsewhere is not None and (former := known.pop(elsewhere, None)) is not None:
            leaving |= {node.node_id for node in with_disk_of(former, alive)}
        nodes = place_brokers(
            *(alive, known, count),
            may_be_away=may_be_away,
            leaving=leaving,
            removed=self._server.decided.removed,
        )
        self._homes.keep(nodes, spec.port)
        for broker_id, node in nodes.items():
            if only is not None and broker_id not in only:
                continue
            self._launcher.add(
                BrokerSpec(
                    broker_id=broker_id,
                    host=spec.own_host(node.address),
                    doors=doors_of(plans, broker_id, node.address, self._present_ports(broker_id)),
                    data_dir=str(Path(spec.data_dir) / f"broker-{broker_id}"),
                    socket_path=str(Path(spec.socket_dir) / f"{broker_id}.sock"),
                    config=spec.effective,
                ),
                node,
            )
        return sorted(nodes)

    def _present_ports(self, broker_id: int) -> dict[str, int]:
        """The ports of a broker that runs already, which its successor is to have too; none of a new one."""
        known = self._server.metadata.brokers.get(broker_id) if self._restarted else None
        return {each.listener: each.port for each in known.endpoints} if known is not None else {}

    def start_brokers(self, timeout_s: float) -> list[tuple[str, int]]:
        """Start the cluster's brokers and wait until all serve. Returns (host, port) of each for clients, by id.

        Raises RuntimeError with the first broker's reason if one does not start, or is silent for `timeout_s`.
        """
        self._launcher.start_timeout_s = timeout_s
        ids = self._place_brokers(self._spec.brokers)
        self._ask(self._server.start, ids)
        try:
            self._wait_for_brokers(timeout_s, ids)
        except RuntimeError:
            self._server.stopping = True  # do not try again what has failed
            raise
        self._launcher.expect_long_starts()
        return self.addresses()

    def restart_broker(self, broker_id: int, timeout_s: float) -> None:
        """Hand over what a broker leads, close it, start it again, and wait until it is in sync everywhere.

        Raises RuntimeError if there is no such broker, or it does not come back in time.
        """
        known = self._server.metadata.brokers.get(broker_id)
        if known is None:
            raise RuntimeError(f"there is no broker {broker_id}")
        self._launcher.errors.pop(broker_id, None)
        if not known.alive:
            self._ask(self._server.start_again, broker_id)
            self._wait_for_return(broker_id, known.epoch, timeout_s)
            process = (known.pid, known.process_started)
            known = self._server.metadata.brokers[broker_id]
            if (known.pid, known.process_started) != process:
                return  # else it was cut off, and has come back as it was
        try:
            self._thread.call(_close_broker(self._server, broker_id))
        except (OSError, TimeoutError) as error:
            raise RuntimeError(f"broker {broker_id} could not be closed: {last_line(error)}") from error
        self._wait_for_return(broker_id, known.epoch, timeout_s)

    def outlook(self, broker_id: int, *, node_is_off: bool) -> Outlook:
        """The effects that the replacement of a broker would have."""
        return self._ask(partial(self._server.replacing.outlook, broker_id, node_is_off=node_is_off))

    def replace_broker(
        self, broker_id: int, *, node_is_off: bool, accept_data_loss: bool, timeout_s: float
    ) -> tuple[str, int]:
        """Start a broker whose data is gone for good with an empty directory: where clients reach it, once it serves.

        It fills its replicas meanwhile. Raises CannotReplaceError if it may not be, RuntimeError if it does not start.
        """
        known = self._server.metadata.brokers.get(broker_id)
        self._launcher.errors.pop(broker_id, None)
        replace_it = partial(self._server.replacing.replace, broker_id)
        self._ask(partial(replace_it, node_is_off=node_is_off, accept_data_loss=accept_data_loss))
        self._wait_for(broker_id, lambda: self._serves(broker_id, known.epoch if known else -1), timeout_s)
        broker = self._server.metadata.brokers[broker_id]
        return broker.host, broker.port

    def removal(self, broker_id: int) -> RemovalOutlook:
        """The outlook of a broker's removal, or how far it is."""
        return self._ask(self._server.removing.outlook, broker_id)

    def remove_broker(self, broker_id: int, throttle: int | None) -> None:
        """Begin to remove a broker; nothing new if that has begun. Raises CannotRemoveError."""
        begin = partial(self._server.removing.begin, broker_id, throttle)
        self._thread.call(self._server.committed(begin))

    def call_off_removal(self, broker_id: int) -> None:
        """Have a broker stay that is being removed. Raises CannotRemoveError."""
        self._thread.call(self._server.committed(partial(self._server.removing.call_off, broker_id)))

    def left_out(self) -> list[int]:
        """The brokers that the start was to have, and that were removed."""
        return sorted(self._server.decided.removed & set(range(self._spec.brokers)))

    def _serves(self, broker_id: int, since_epoch: int) -> bool:
        broker = self._server.metadata.brokers[broker_id]
        return broker.alive and broker.epoch > since_epoch

    def _wait_for_return(self, broker_id: int, since_epoch: int, timeout_s: float) -> None:
        self._wait_for(broker_id, lambda: self._is_back(broker_id, since_epoch), timeout_s)

    def _wait_for(self, broker_id: int, is_there: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        failing = None
        while not self._ask(is_there):
            now, reason = time.monotonic(), self._launcher.errors.get(broker_id)
            failing = (failing or now) if reason else None
            if reason and now - (failing or now) > _FAILING_SECONDS:
                raise RuntimeError(f"broker {broker_id} does not start: {reason}")
            if now > deadline:
                where = self._spec.log_dir
                raise RuntimeError(f"broker {broker_id} did not come back within {timeout_s:.0f} s; see {where}")
            time.sleep(0.02)

    def _is_back(self, broker_id: int, since_epoch: int) -> bool:
        return self._serves(broker_id, since_epoch) and self._server.in_sync_everywhere(broker_id)

    # --- other settings, and another secret ---

    def in_force(self) -> tuple[ControllerSpec, int]:
        """The settings that this controller goes by, and the first broker id above all given out."""
        return replace(self._spec, port=self._first_spec.port), self._ask(self._server.next_id)

    def reconfigure(self, changed: Changed) -> None:
        """Have every broker that is started from now on told these settings, also after the death of this process.

        Raises ClusterError, OSError, TlsError.
        """
        spec = self._first_spec.with_settings(changed)
        config = BrokerConfig.from_mapping(spec.effective)
        if config.link_security.encrypts:
            from actors.links.acceptance import check_stores

            check_stores(self._server.secrets, config.link_stores)
        plans = plan_doors(config, spec.host, spec.port)
        wrong = self._ask(locked_out, self._server.metadata, config)
        if wrong is not None:
            raise ClusterError(wrong)
        with self._adding:
            self._settings.keep(changed)
            self._spec = spec
            self._ask(self._server.reconfigure, spec.of_controller)
            self._launcher.tell_otherwise(partial(_told, plans, spec))
            self._launcher.monitor = _monitor_of(spec)

    def restarted_all(self) -> None:
        """All brokers run with the settings that are in force. Raises OSError."""
        with self._adding:
            changed = self._settings.kept()
            if changed is not None:
                changed = changed.taken_everywhere()
                self._settings.keep(changed)
                self._spec = self._spec.with_settings(changed)
                self._ask(self._server.reconfigure, self._spec.of_controller)
                self._launcher.monitor = _monitor_of(self._spec)
                self._on_loop(self._server.monitoring.renew)

    def begin_new_secret(self) -> None:
        """Have all know a secret that is to follow the present one. Raises NewSecretError, OSError."""
        ours = not self._spec.config.get("coterie.secret.file")
        self._thread.call(new_secret.begin(self._server, self._secret_file, make=ours))
        self.write_authority()

    def use_new_secret(self) -> None:
        """Have that be the secret. The one before is valid, too. Raises NewSecretError, OSError."""
        self._thread.call(new_secret.use(self._server, self._secret_file))

    def forget_old_secret(self) -> None:
        """Have the secret before be valid no longer. Raises NewSecretError, OSError."""
        self._thread.call(new_secret.forget(self._server, self._secret_file, self._node.hang_up_on_strangers))

    def write_authority(self) -> None:
        """Write whom clients have to trust now, if the file is there. Raises OSError."""
        place = place_of(Path(self._spec.data_dir))
        if (place / AUTHORITY).exists():
            write_authority(place, self._server.secrets)

    @property
    def _secret_file(self) -> Path:
        return Path(self._spec.secret_file)

    # --- brokers that come and go ---

    def elect_preferred(self) -> None:
        """Make the first replica of each partition its leader, if that one is in sync."""
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

    def _wait_for_brokers(self, timeout_s: float, ids: Sequence[int]) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._ask(self._server.ready, ids):
            reason = next((error for broker_id in ids if (error := self._launcher.errors.get(broker_id))), None)
            if reason is not None:
                raise RuntimeError(reason)
            if self._launcher.starts_under_way:  # these have deadlines of their own
                deadline = time.monotonic() + timeout_s
            elif time.monotonic() > deadline:
                raise RuntimeError(f"the brokers did not come up within {timeout_s:.0f} s; see {self._spec.log_dir}")
            time.sleep(0.02)

    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each broker, by id. Answers even while the loop stands still, so that we do not seem dead."""
        return [(b.host, b.port) for _, b in sorted(self._server.metadata.brokers.items())]

    def has_topic(self, name: str) -> bool:
        """True if there is such a topic."""
        return name in self._server.metadata.topics

    def answer_pool(self, wish: Wish) -> Answer:
        """Answers questions about the versions of deployed pools. Raises OSError, ValueError."""
        return self._thread.call(self._server.committed(lambda: self._pool_seals.answer(wish)))

    def status(self) -> ClusterStatus:
        """The cluster as `coterie status` shows it."""
        return self._thread.call(_look(self._server))

    def group_status(self, broker_id: int, group_id: str) -> GroupStatus | None:
        """A broker's view of a group; None if the broker does not coordinate it, or does not answer."""
        return self._thread.call(_look_at_group(self._server, broker_id, group_id))

    def tell_of_pool(self, figures: PoolFigures) -> None:
        """A pool on this Ray says what its members do. The Monitor is told of it when it asks next."""
        self._on_loop(self._server.monitoring.tell_of_pool, figures)

    def view(self, operation: Operation[R]) -> R:
        """The Monitor's answer to an operation. Raises ConnectionError if there is no Monitor now, TimeoutError."""
        return self._thread.call(self._server.monitoring.view(operation))

    def stop(self) -> None:
        """Have the brokers close their logs, then end all processes but this actor's, which the caller ends."""
        from actors.controller.sessions import stop_all

        self._server.stopping = True
        self._drain_look.end()
        self._launcher.start_no_more()
        with suppress(TimeoutError):
            self._thread.call(stop_all(self._server.brokers.values(), _STOP_SECONDS), _STOP_SECONDS + 1)
        self._launcher.end()
        shutil.rmtree(self._spec.socket_dir, ignore_errors=True)
