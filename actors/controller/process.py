"""The controller's process without Ray: what its actor is asked for, over the active controller and its launcher.

Ray calls the actor's methods in several threads. The active controller has one thread with a loop (`OnLoop`): all that
it decides is asked for there, and all that takes time is waited for there. `addresses`, `join_info` and others that
only look at the metadata do so from outside, so that they answer while the loop stands still.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from actors.controller import gcs_environment, new_secret
from actors.controller.active import ActiveController
from actors.controller.broker_waits import FAILING_SECONDS
from actors.controller.decisions.acls import locked_out
from actors.controller.draining import DrainLook
from actors.controller.launcher import ActorLauncher
from actors.controller.listeners import plan_listeners
from actors.controller.on_loop import OnLoop
from actors.controller.placing import BrokerPlacing
from actors.controller.pool_seals import PoolSeals
from actors.controller.ray_actors import RayActors
from actors.controller.reports import with_shards
from actors.controller.securing import AUTHORITY, write_authority
from actors.controller.sessions import close_broker, group_status, shards_of, stop_all
from actors.controller.settings_in_force import Changed, KeptSettings
from actors.controller.spec import ControllerSpec, SpecInForce
from actors.controller.terms import OF_ONE_ALONE, Terms
from actors.controller.voter_orders import NO_ORDERS, VoterOrders
from actors.links.acceptance import check_stores
from actors.links.group_status import GroupStatus
from actors.links.not_controller import NotControllerError
from actors.links.operations import Operation, Result
from actors.links.pool_seals import Answer, Wish
from actors.links.pools import PoolFigures
from actors.links.removals import RemovalOutlook
from actors.links.replacements import Outlook
from actors.links.secret import Marks, Secrets
from actors.links.status import ClusterStatus
from actors.runtime.data_folder import place_of
from actors.runtime.process import last_line
from actors.runtime.ray_connection import ClusterError
from actors.settings import BrokerConfig

R = TypeVar("R", bound=Result)

log = logging.getLogger(__name__)

_SHARDS_SECONDS: Final = 2.0
_STOP_SECONDS: Final = 3.0


@contextmanager
def _not_again() -> Iterator[None]:
    """Have nothing that has begun be asked of the next controller: there might be twice as many brokers."""
    try:
        yield
    except NotControllerError:
        text = "another controller has begun to lead: the brokers may be added all the same, see `coterie status`"
        raise ClusterError(text) from None


class ControllerProcess:
    """The methods of the controller's actor. All of its parts run already (`starting`)."""

    def __init__(
        self,
        spec: SpecInForce,
        settings: KeptSettings,
        address: tuple[str, int],
        actors: RayActors,
        loop: OnLoop,
        launcher: ActorLauncher,
        placing: BrokerPlacing,
        pool_seals: PoolSeals,
        drain_look: DrainLook,
        terms: Terms = OF_ONE_ALONE,
        voters: VoterOrders = NO_ORDERS,
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._address = address
        self._actors = actors
        self.loop = loop
        self.launcher = launcher
        self.placing = placing
        self._pool_seals = pool_seals
        self._drain_look = drain_look
        self._terms = terms
        self._voters = voters
        self.failing_s = FAILING_SECONDS
        """A broker that is restarted may try to start for so long before its failure is reported."""

    @property
    def controller(self) -> ActiveController:
        """The controller that decides, while it is this node. Raises NotControllerError."""
        return self.loop.controller

    # --- how processes find and join the cluster ---

    def join_info(self) -> tuple[str, int, Marks]:
        """(host, port, marks): where brokers find the controller, and which secrets are valid.

        Raises NotControllerError if another one is the controller, and this one does not know which.
        """
        return *self.loop.node.leader_address, self.loop.node.in_force.secrets.marks

    def ray_asks_for_token(self) -> bool:
        """True if this Ray asks for a token: an actor has the environment of its raylet, a driver has its own."""
        return self._actors.asks_for_token()

    def ray_environment(self) -> dict[str, str]:
        """The environment variables of this node's Ray that concern the GCS."""
        return gcs_environment.environment()

    def hand_out_secret(self, asks: int | str) -> Secrets:
        """The secrets, for a broker, by its id, or a controller, in words, on a node without their files.

        Raises PermissionError if they may not travel so, and for a controller NotControllerError if another one leads:
        that one knows the settings in force.
        """
        if isinstance(asks, str):
            self._check_leads()
        who = f"broker {asks}" if isinstance(asks, int) else asks
        spec, in_force = self._spec.now, self.loop.node.in_force
        token = self.ray_asks_for_token()
        why = new_secret.why_not_through_ray(in_force.config, spec.secret_file, who, token=token)
        if why is not None:
            raise PermissionError(why)
        log.warning(
            "%s has no %s on its node: the secret goes through Ray, where others may ask for it. To prevent "
            "that, put the file there, or set coterie.secret.file",
            who,
            spec.secret_file,
        )
        return in_force.secrets

    # --- one of several ---

    def leads(self) -> bool:
        """True if this is the controller, as far as it knows."""
        return self.loop.node.server is not None

    def own_address(self) -> tuple[str, int]:
        """(host, port): where other controllers find this one."""
        return self._address

    def has_log(self) -> bool:
        """True if there was a log on its disk when it started."""
        return self._terms.has_log

    def add_controller(self, controller_id: int, timeout_s: float) -> None:
        """Give another controller a vote, which runs. Raises ClusterError."""
        self._check_leads()
        self.loop.wait(self._voters.add(controller_id, timeout_s))

    def remove_controller(self, controller_id: int, timeout_s: float) -> None:
        """Take a controller's vote. Raises ClusterError."""
        self._check_leads()
        self.loop.wait(self._voters.remove(controller_id, timeout_s))

    def _check_leads(self) -> None:
        """Raise NotControllerError if another controller decides."""
        self.loop.ask(lambda: self.controller.epoch)

    def cluster_started(self) -> None:
        """The cluster has been started: whoever is the controller goes on with it from now on."""
        self._terms.cluster_started()

    # --- brokers that start, come back, come and go ---

    def start_brokers(self, timeout_s: float) -> list[tuple[str, int]]:
        """Start the cluster's brokers and wait until all serve. Returns (host, port) of each for clients, by id.

        Raises RuntimeError with the first broker's reason if one does not start, or is silent for `timeout_s`.
        """
        self._terms.start_cluster()
        self.launcher.expect_short_starts(timeout_s)
        ids = self.placing.place(self._spec.now.brokers)
        self.loop.ask(self.controller.start, ids)
        try:
            self._wait_until_ready(ids, timeout_s)
        except RuntimeError:
            self.controller.stopping = True  # do not try again what has failed
            raise
        self.launcher.expect_long_starts()
        return self.addresses()

    def add_brokers(self, count: int, timeout_s: float) -> list[int]:
        """Start `count` more brokers; their ids, once they serve. Raises RuntimeError if one does not come up."""
        with self.placing.lock:
            first = self.loop.ask(self.controller.next_id)
            ids = list(range(first, first + count))
            with _not_again():
                self.placing.place(ids[-1] + 1, ids, may_be_away=True)
                self.loop.ask(self.controller.add, ids)
        with _not_again():
            self._wait_until_ready(ids, timeout_s)
        return ids

    def _wait_until_ready(self, ids: Sequence[int], timeout_s: float) -> None:
        waits, ready = self.controller.waits, partial(self.controller.ready, ids)
        see = self._spec.now.log_dir
        self.loop.wait(waits.until_ready(ids, ready, self.launcher.is_starting, timeout_s, see))

    def restart_broker(self, broker_id: int, timeout_s: float) -> None:
        """Hand over what a broker leads, close it, start it again, and wait until it is in sync everywhere.

        Raises RuntimeError if there is no such broker, or it does not come back in time.
        """
        known = self.controller.metadata.brokers.get(broker_id)
        if known is None:
            raise RuntimeError(f"there is no broker {broker_id}")
        self.loop.ask(self.controller.starts.forgive, broker_id)
        if not known.alive:
            self.loop.ask(self.controller.start_again, broker_id)
            self._wait_until_back(broker_id, partial(self._is_back, broker_id, known.epoch), timeout_s)
            process = (known.pid, known.process_started)
            known = self.controller.metadata.brokers[broker_id]
            if (known.pid, known.process_started) != process:
                return  # else it was cut off, and has come back as it was
        try:
            self.loop.wait(close_broker(self.controller.brokers, broker_id))
        except (OSError, TimeoutError) as error:
            raise RuntimeError(f"broker {broker_id} could not be closed: {last_line(error)}") from error
        self._wait_until_back(broker_id, partial(self._is_back, broker_id, known.epoch), timeout_s)

    def _wait_until_back(self, broker_id: int, is_back: Callable[[], bool], timeout_s: float) -> None:
        see, waits = self._spec.now.log_dir, self.controller.waits
        self.loop.wait(waits.until_back(broker_id, is_back, timeout_s, see, self.failing_s))

    def _serves(self, broker_id: int, since_epoch: int) -> bool:
        broker = self.controller.metadata.brokers[broker_id]
        return broker.alive and broker.epoch > since_epoch

    def _is_back(self, broker_id: int, since_epoch: int) -> bool:
        return self._serves(broker_id, since_epoch) and self.controller.in_sync_everywhere(broker_id)

    def outlook(self, broker_id: int, *, node_is_off: bool) -> Outlook:
        """The effects that the replacement of a broker would have."""
        return self.loop.ask(partial(self.controller.replacing.outlook, broker_id, node_is_off=node_is_off))

    def replace_broker(
        self, broker_id: int, *, node_is_off: bool, accept_data_loss: bool, timeout_s: float
    ) -> tuple[str, int]:
        """Start a broker whose data is gone for good with an empty directory: where clients reach it, once it serves.

        It fills its replicas meanwhile. Raises CannotReplaceError if it may not be, RuntimeError if it does not start.
        """
        known = self.controller.metadata.brokers.get(broker_id)
        self.loop.ask(self.controller.starts.forgive, broker_id)
        replace_it = partial(self.controller.replacing.replace, broker_id)
        self.loop.ask(partial(replace_it, node_is_off=node_is_off, accept_data_loss=accept_data_loss))
        serves = partial(self._serves, broker_id, known.epoch if known else -1)
        self._wait_until_back(broker_id, serves, timeout_s)
        broker = self.controller.metadata.brokers[broker_id]
        return broker.host, broker.port

    def removal(self, broker_id: int) -> RemovalOutlook:
        """The outlook of a broker's removal, or how far it is."""
        return self.loop.ask(self.controller.removing.outlook, broker_id)

    def remove_broker(self, broker_id: int, throttle: int | None) -> None:
        """Begin to remove a broker; nothing new if that has begun. Raises CannotRemoveError."""
        begin = partial(self.controller.removing.begin, broker_id, throttle)
        self.loop.wait(self.controller.committed(begin))

    def call_off_removal(self, broker_id: int) -> None:
        """Have a broker stay that is being removed. Raises CannotRemoveError."""
        self.loop.wait(self.controller.committed(partial(self.controller.removing.call_off, broker_id)))

    def left_out(self) -> list[int]:
        """The brokers that the start was to have, and that were removed."""
        return sorted(self.controller.decided.removed & set(range(self._spec.now.brokers)))

    def elect_preferred(self) -> None:
        """Make the first replica of each partition its leader, if that one is in sync."""
        self.loop.tell(self.controller.elect_preferred)

    # --- other settings, and another secret ---

    def in_force(self) -> tuple[ControllerSpec, int]:
        """The settings that this controller goes by, and the first broker id above all given out."""
        port = self._spec.first.port
        return replace(self._spec.now, port=port), self.loop.ask(self.controller.next_id)

    def reconfigure(self, changed: Changed) -> None:
        """Have every broker that is started from now on told these settings, also after the death of this process.

        Raises ClusterError, OSError, TlsError.
        """
        spec = self._spec.first.with_settings(changed)
        config = BrokerConfig.from_mapping(spec.effective)
        if config.link_security.encrypts:
            check_stores(self.controller.secrets, config.link_stores)
        plan_listeners(config, spec.host, spec.port)  # or why there can be none
        wrong = self.loop.ask(locked_out, self.controller.metadata, config)
        if wrong is not None:
            raise ClusterError(wrong)
        with self.placing.lock:
            self._settings.keep(changed)
            self._spec.now = spec
            self.loop.ask(self.controller.reconfigure, spec.of_controller)
            self.placing.tell_otherwise()

    def restarted_all(self) -> None:
        """All brokers run with the settings that are in force. Raises OSError."""
        with self.placing.lock:
            changed = self._settings.kept()
            if changed is not None:
                changed = changed.taken_everywhere()
                self._settings.keep(changed)
                self._spec.now = self._spec.now.with_settings(changed)
                self.loop.ask(self.controller.reconfigure, self._spec.now.of_controller)
                self.launcher.tell_monitor_otherwise(self._spec.now.monitor)
                self.loop.tell(self.controller.monitoring.renew)

    def begin_new_secret(self) -> None:
        """Have all know a secret that is to follow the present one. Raises NewSecretError, OSError."""
        ours = not self._spec.now.config.get("coterie.secret.file")
        self.loop.wait(new_secret.begin(self.controller, self._secret_file, make=ours))
        self.write_authority()

    def use_new_secret(self) -> None:
        """Have that be the secret. The one before is valid, too. Raises NewSecretError, OSError."""
        self.loop.wait(new_secret.use(self.controller, self._secret_file))

    def forget_old_secret(self) -> None:
        """Have the secret before be valid no longer. Raises NewSecretError, OSError."""
        hang_up = self.loop.node.close_unauthenticated
        self.loop.wait(new_secret.forget(self.controller, self._secret_file, hang_up))

    def write_authority(self) -> None:
        """Write whom clients have to trust now, if the file is there. Raises OSError."""
        place = place_of(Path(self._spec.now.data_dir))
        if (place / AUTHORITY).exists():
            write_authority(place, self.controller.secrets)

    @property
    def _secret_file(self) -> Path:
        return Path(self._spec.now.secret_file)

    # --- what programs ask ---

    def addresses(self) -> list[tuple[str, int]]:
        """(host, port) of each broker, by id. Answers even while the loop stands still, so that we do not seem dead."""
        return [(b.host, b.port) for _, b in sorted(self.controller.metadata.brokers.items())]

    def has_topic(self, name: str) -> bool:
        """True if there is such a topic."""
        return name in self.controller.metadata.topics

    def answer_pool(self, wish: Wish) -> Answer:
        """Answers questions about the versions of deployed pools. Raises OSError, ValueError."""
        return self.loop.wait(self.controller.committed(lambda: self._pool_seals.answer(wish)))

    def status(self) -> ClusterStatus:
        """The cluster as `coterie status` shows it."""
        return self.loop.wait(self._look())

    async def _look(self) -> ClusterStatus:
        controller = self.controller
        shards = await shards_of(controller.brokers.values(), _SHARDS_SECONDS)
        return with_shards(controller.status(), controller.metadata, shards, controller.absence)

    def group_status(self, broker_id: int, group_id: str) -> GroupStatus | None:
        """A broker's view of a group; None if the broker does not coordinate it, or does not answer."""
        return self.loop.wait(group_status(self.controller.brokers, broker_id, group_id))

    def tell_of_pool(self, figures: PoolFigures) -> None:
        """A pool on this Ray says what its members do. The Monitor is told of it when it asks next."""
        self.loop.tell(self.controller.monitoring.tell_of_pool, figures)

    def view(self, operation: Operation[R]) -> R:
        """The Monitor's answer to an operation. Raises ConnectionError if there is no Monitor now, TimeoutError."""
        return self.loop.wait(self.controller.monitoring.view(operation))

    # --- the end ---

    def stop(self) -> None:
        """Have the brokers close their logs, then end all processes but this one, which the caller ends."""
        self.controller.stopping = True
        self._drain_look.end()
        self.launcher.start_no_more()
        with suppress(TimeoutError):
            self.loop.wait(stop_all(self.controller.brokers.values(), _STOP_SECONDS), _STOP_SECONDS + 1)
        self.launcher.end()
        shutil.rmtree(self._spec.now.socket_dir, ignore_errors=True)

    def close(self) -> None:
        """Give up the port and the log, as the end of the process does. Other processes go on."""
        self._drain_look.end()
        self.loop.end()
