"""A cluster as a driver sees it: start one on Ray, connect to one that runs, stop it.

with Cluster.start(brokers=3, data_dir="data") as cluster:
    print(cluster.bootstrap_servers)
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from actors.controller import first_users, settings_in_force
from actors.controller.asking import ControllerHandle
from actors.controller.at_ray import WARM, bring_pools_back, close_pools, joined
from actors.controller.by_name import STOP_SECONDS, actors_of, end_actors, find_controller, spec_of
from actors.controller.controllers import Controllers
from actors.controller.driver_ray import ON_RAY, DriverRay, FoundActor, GetTimeoutError, RayError
from actors.controller.held_data import HeldData, folder_of
from actors.controller.listeners import plan_listeners, refuse_open
from actors.controller.preparation import check_ports, effective_config, left_out, warn_if_open
from actors.controller.protection import Protection
from actors.controller.ray_head import HeadLook
from actors.controller.rolling import Roll
from actors.controller.securing import Administrator, leave_users, secured
from actors.controller.several_by_name import check_count, start_some
from actors.links.group_status import GroupStatus
from actors.links.operations import Operation, Result
from actors.links.removals import RemovalOutlook, RemovalStatus
from actors.links.replacements import Outlook
from actors.links.status import ClusterStatus, plain
from actors.runtime.environment import REAL, Clock
from actors.runtime.private import write_private
from actors.runtime.process import last_line
from actors.runtime.ray_connection import openness_lines
from actors.runtime.ray_runtime import ADDRESS_FILE, RAY_LOG, ClusterError
from actors.settings import BrokerConfig

if TYPE_CHECKING:
    from actors.members.deployment.at_home import Homecoming

__all__ = ["WARM", "Cluster", "ClusterError"]

R = TypeVar("R", bound=Result)

DEFAULT_NAME = "default"
_FOLLOW_SECONDS = 1.0  # between two looks how far the controller is


class Cluster:
    """A running cluster. Leaving its `with` block stops what this object started."""

    def __init__(
        self,
        name: str,
        controller: FoundActor,
        addresses: list[tuple[str, int]],
        *,
        owns_ray: bool,
        owner: bool,
        notes: Sequence[str] = (),
        ray: DriverRay = ON_RAY,
        clock: Clock = REAL.clock,
        several: bool = False,
    ) -> None:
        self.name = name
        self.notes = tuple(notes)
        """Settings that were changed to fit a cluster of this size, and settings without effect, in sentences."""
        self._controller = ControllerHandle(ray, name, controller, clock, several=several)
        self._addresses = addresses
        self._owns_ray = owns_ray
        self._owner = owner
        self._homecoming: Homecoming | None = None
        self._data: HeldData | None = None
        self._ray = ray
        self._clock = clock

    @classmethod
    def start(
        cls,
        brokers: int = 1,
        *,
        name: str = DEFAULT_NAME,
        port: int | None = None,
        host: str | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        ray_address: str | None = None,
        config: Mapping[str, str] | None = None,
        add_scram: Sequence[str] = (),
        ask_password: Callable[[str], str] | None = None,
        secure: bool = False,
        insecure: bool = False,
        controllers: int = 1,
        ray: DriverRay = ON_RAY,
    ) -> Cluster:
        """Start `brokers` brokers and return when clients can connect.

        They run on an embedded Ray, unless `ray_address` is given or this process is connected to a Ray already.
        `port` is the first broker's port, and the others have the ports after it; 0 takes any free ones, None those of
        `listeners` if it is set. `data_dir` is made if it is missing; without one a temporary folder is used.
        `config` has broker settings by Kafka's names. `add_scram` are the first users of a new cluster, as in
        `SCRAM-SHA-256=[name=alice,password-file=/path]`; `ask_password` asks for the password of a user whose text says
        `password=-`. `secure` is TLS, logins and ACLs, with an administrator whom `DATA_DIR/client.properties` lets log
        in. A listener that other machines reach and that asks nobody who he is has to be wanted: by `insecure`.
        `controllers`, an odd number, are on as many Ray nodes (on a Ray of one node, all there); most of them have to
        live. `ray` makes the calls of Ray; tests give another one. Raises ClusterError, SettingError and AddScramError.
        """
        if brokers < 1:
            raise ClusterError(f"brokers must be at least 1, got {brokers}")
        check_count(controllers)
        # In a process that is connected to a Ray of several nodes, brokers elsewhere must be reachable from here.
        embedded = ray_address is None and (not ray.is_connected or ray.node_count == 1)
        bind = host or ("127.0.0.1" if embedded else None)
        given = secured(config or {}, bind, port) if secure else dict(config or {})
        settings, notes = effective_config(given, brokers)
        users = first_users.made(add_scram, REAL.chance, ask_password)
        parsed = BrokerConfig.from_mapping(settings)
        listeners = plan_listeners(parsed, bind, port)
        if not insecure:
            refuse_open(listeners)
        warn_if_open(listeners, parsed)
        data = HeldData(
            Path(data_dir or tempfile.mkdtemp(prefix="coterie-")),
            settings.get("coterie.secret.file"),
            Protection.of(listeners, parsed),
            embedded=embedded and not ray.is_connected,
            insecure=insecure,
        )
        folder, owns_ray = data.folder, False
        try:
            check_ports(listeners, brokers, folder, here=bind is not None)
            administrator = Administrator(data.place, REAL.chance) if secure else None
            leave_users(folder, users, administrator, REAL.chance)
            forks = parsed.text("coterie.actor.start") == "fork"
            owns_ray = joined(ray, ray_address, folder, may_start=True, warm=WARM if forks else None)
            if not insecure:
                refuse_open(listeners, {node.address for node in ray.nodes()})
            notes += settings_in_force.forgotten(folder, settings)
            not_ours = not owns_ray or ray_address is not None
            head = HeadLook(ray, controller_here=controllers == 1) if not_ours else None
            spec = spec_of(name, folder, data.secret, bind, brokers, port, settings)
            controller, addresses = start_some(ray, spec, controllers, REAL.clock)
            if administrator is not None:
                administrator.write(data.secret)
                notes.append(f"clients log in by --command-config {administrator.properties}")
            data.served()
        except BaseException:  # Ctrl-C, too: what has begun must not outlive this
            first_users.withdraw(folder)
            if owns_ray:
                ray.leave()
            data.release()
            raise
        cluster = cls(name, controller, addresses, owns_ray=owns_ray, owner=True, several=controllers > 1, ray=ray)
        cluster._data = data
        try:
            ask = cluster._controller.insist
            if head is not None:
                notes += openness_lines(ray.address, token=ask("ray_asks_for_token"))
                notes.append(head.line(controller))
            if owns_ray and embedded:
                notes.append(f"logs are in {folder / 'logs'}; what Ray says is in {RAY_LOG} there")
                (data.place / ADDRESS_FILE).unlink(missing_ok=True)
                write_private(data.place / ADDRESS_FILE, cluster.ray_address)
            cluster.notes = (*notes, *left_out(ask("left_out"), len(addresses)))
            cluster._homecoming = bring_pools_back(controller, cluster.bootstrap_servers, folder)
        except BaseException:  # Ctrl-C, too: what has started must not outlive this
            cluster.stop()
            raise
        return cluster

    @classmethod
    def connect(
        cls,
        ray_address: str | None = None,
        name: str = DEFAULT_NAME,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        ray: DriverRay = ON_RAY,
    ) -> Cluster:
        """A cluster that runs already, on the Ray at `ray_address` or on the embedded Ray of `data_dir`.

        Raises ClusterError if no cluster called `name` runs there.
        """
        folder = None if data_dir is None else folder_of(Path(data_dir))
        owns_ray = joined(ray, ray_address, folder)
        try:
            controller, several, addresses = find_controller(ray, name)
        except ClusterError:
            if owns_ray:
                ray.leave()
            raise
        return cls(name, controller, addresses, owns_ray=owns_ray, owner=False, several=several, ray=ray)

    @classmethod
    def end(
        cls,
        ray_address: str | None = None,
        name: str = DEFAULT_NAME,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        ray: DriverRay = ON_RAY,
    ) -> int:
        """Stop a running cluster, or end what is left of one whose controller cannot be reached.

        Returns how many brokers and partition actors had to be ended without the controller. Raises ClusterError if
        nothing of a cluster called `name` runs there.
        """
        folder = None if data_dir is None else folder_of(Path(data_dir))
        owns_ray = joined(ray, ray_address, folder)
        try:
            try:
                cluster = cls.connect(name=name, ray=ray)
            except ClusterError:
                if not actors_of(ray, name):
                    raise
                return end_actors(ray, name)
            cluster.stop()
            end_actors(ray, name)  # should the controller not have got to it
            return 0
        finally:
            if owns_ray:
                ray.leave()

    @property
    def bootstrap_servers(self) -> str:
        """`host:port,host:port,...`, as every Kafka client takes it."""
        return ",".join(f"{host}:{port}" for host, port in self._addresses)

    @property
    def ray_address(self) -> str:
        """The address of the Ray that this cluster runs on, for other drivers."""
        return self._ray.address

    def status(self) -> dict[str, Any]:
        """Brokers, shard processes, their Ray nodes, pids, epochs and load: `ClusterStatus` as plain values."""
        return plain(self._status())

    def _status(self) -> ClusterStatus:
        found: ClusterStatus = self._controller.ask("status")
        return found

    def view(self, operation: Operation[R]) -> R:
        """The answer of the cluster's Monitor to a question of `actors.links.views`.

        Raises ClusterError if there is no Monitor now, if it has not looked yet, or does not answer.
        """
        try:
            found: R = self._controller.ask("view", operation)
        except GetTimeoutError:
            raise ClusterError("the cluster's Monitor does not answer") from None
        return found

    def group_status(self, group_id: str, broker_id: int) -> GroupStatus | None:
        """A group's awaited members and last rebalances; None if the broker has no such group, or does not answer."""
        found: GroupStatus | None = self._controller.ask("group_status", broker_id, group_id)
        return found

    def restart_brokers(
        self, *broker_ids: int, timeout_s: float = 120.0, on_restarted: Callable[[int], None] | None = None
    ) -> None:
        """Restart brokers, or all if none is named, one at a time: each waits until the one before is in sync again.

        `on_restarted` is called with each that is back. Clients that retry see no error. Raises ClusterError if one
        stays away.
        """
        self._roll(timeout_s, on_restarted or (lambda broker_id: None)).restart(*broker_ids)

    def roll(
        self,
        config: Mapping[str, str | None] | None = None,
        *,
        insecure: bool = False,
        new_secret: bool = False,
        forget_old_secret: bool = False,
        timeout_s: float = 120.0,
        on_restarted: Callable[[int], None] | None = None,
    ) -> None:
        """Have brokers take other settings, or another secret, one after the other while the cluster serves.

        `config` has what changes, by Kafka's names; None takes a setting back to its default. `insecure` is as for
        `start`. `new_secret` changes the secret by which the cluster's processes know one another; `forget_old_secret`
        ends the former one where clients have to learn of the new certificates in between. `on_restarted` is called
        with each broker that is back. `notes` has what has to be known. Raises ClusterError, with the rest as it was,
        and SettingError; the same call goes on then.
        """
        roll = self._roll(timeout_s, on_restarted or (lambda broker_id: None))
        self.notes = roll.take(config or {}, {node.address for node in self._ray.nodes()}, insecure=insecure)
        if new_secret:
            self.notes += roll.new_secret()
        elif forget_old_secret:
            roll.forget_old_secret()
        else:
            roll.restart_all()
        self._addresses = self._controller.ask("addresses")

    def _roll(self, timeout_s: float, on_restarted: Callable[[int], None]) -> Roll:
        return Roll(self._controller.ask, on_restarted, timeout_s)

    def add_brokers(self, count: int = 1, timeout_s: float = 60.0) -> list[int]:
        """Start more brokers, and return their ids once they serve.

        New topics use them; partitions that exist have to be reassigned.
        """
        ids: list[int] = self._controller.ask("add_brokers", count, timeout_s, within_s=timeout_s + 10)
        self._addresses = self._controller.ask("addresses")
        return ids

    def replacement(self, broker_id: int, *, node_is_off: bool = False) -> Outlook:
        """The outlook of a broker's replacement: what it alone has, and why it may not be replaced now."""
        found: Outlook = self._controller.ask("outlook", broker_id, within_s=30.0, node_is_off=node_is_off)
        return found

    def replace_broker(
        self,
        broker_id: int,
        *,
        node_is_off: bool = False,
        accept_data_loss: bool = False,
        timeout_s: float = 120.0,
    ) -> str:
        """Start a broker whose data is gone for good with an empty directory, on another node: its `host:port`.

        It serves when this returns, and is filled from the other brokers. `node_is_off`: the caller knows that the
        former process cannot run any more. `accept_data_loss` gives up partitions that it alone had. Raises
        ClusterError.
        """
        host, port = self._controller.ask(
            *("replace_broker", broker_id),
            within_s=timeout_s + 10,
            node_is_off=node_is_off,
            accept_data_loss=accept_data_loss,
            timeout_s=timeout_s,
        )
        self._addresses = self._controller.ask("addresses")
        return f"{host}:{port}"

    def removal(self, broker_id: int) -> RemovalOutlook:
        """The outlook of a broker's removal: its moves, or why it cannot be; or how far it is."""
        found: RemovalOutlook = self._controller.insist("removal", broker_id)
        return found

    def remove_broker(
        self,
        broker_id: int,
        *,
        throttle: int | None = None,
        on_progress: Callable[[RemovalStatus], None] | None = None,
    ) -> None:
        """Remove a broker for good: others lead, what it holds moves to them, and it is unregistered and ends.

        Returns when it is gone. The cluster goes on with it if this call is broken off, and another call follows it.
        `throttle` bounds what each broker sends to followers out of sync meanwhile, in bytes a second (0: no bound).
        `on_progress` is called again and again with how far it is. Raises ClusterError if it cannot be, or is called
        off.
        """
        self._controller.insist("remove_broker", broker_id, throttle)
        while not (found := self.removal(broker_id)).removed:
            if found.status is None:
                raise ClusterError(
                    f"the removal of broker {broker_id} was called off: it stays, with what it still has"
                )
            if on_progress is not None:
                on_progress(found.status)
            self._clock.sleep(_FOLLOW_SECONDS)
        self._addresses = self._controller.insist("addresses")

    def call_off_removal(self, broker_id: int) -> None:
        """Have a broker stay that is being removed, with what it still has. Raises ClusterError if it is not."""
        self._controller.insist("call_off_removal", broker_id)

    @property
    def controllers(self) -> Controllers:
        """Its controllers, if it has several: to add one, or to remove one."""
        return Controllers(self._ray, self.name, self._controller)

    def broker_pids(self) -> dict[int, int]:
        """Process id of each living broker."""
        return {broker.id: broker.pid for broker in self._status().brokers if broker.pid}

    def shard_pids(self) -> dict[int, int]:
        """Process id by offsets partition, of the partitions that have a process."""
        shards = (shard for broker in self._status().brokers for shard in broker.shards)
        return {shard.partition: shard.pid for shard in shards if shard.partition >= 0 and shard.pid is not None}

    def check(self) -> bool:
        """True if the controller has answered, within a second. Raises ClusterError if it is gone for good."""
        return self._controller.check()

    def stop(self) -> None:
        """Close the logs and end all processes of the cluster. Stopping twice is harmless."""
        self._release()
        try:
            self._await_pools()
            if self._controller.is_known:
                close_pools(self._ray, lambda: self._status().cluster_id)
                self._controller.end()
        except GetTimeoutError:
            warnings.warn(f"the cluster did not stop in order within {STOP_SECONDS:.0f} s", stacklevel=2)
        except RayError as error:
            warnings.warn(f"the cluster did not stop in order: {last_line(error)}", stacklevel=2)
        finally:
            self._leave_ray()

    def disconnect(self) -> None:
        """Disconnect from Ray and leave the cluster running."""
        self._release()
        self._await_pools()
        self._controller.leave()
        self._leave_ray()

    def _leave_ray(self) -> None:
        if self._owns_ray:
            self._owns_ray = False
            self._ray.leave()

    def _release(self) -> None:
        data, self._data = self._data, None
        if data is not None:
            data.release()

    def _await_pools(self) -> None:
        homecoming, self._homecoming = self._homecoming, None
        if homecoming is not None:
            homecoming.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._owner:
            self.stop()
        else:
            self.disconnect()
