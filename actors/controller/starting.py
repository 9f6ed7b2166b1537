"""The start of a controller's process, in one go: from the bytes that Ray tells its actor to one that takes brokers.

Ray starts the process again when it has died, with the same bytes. It finds the metadata log of the one before, and
the brokers, which have gone on serving and register again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from actors.controller import first_users, settings_in_force
from actors.controller.acceptor import InForce
from actors.controller.decisions.acls import locked_out
from actors.controller.draining import DrainLook
from actors.controller.from_files import records_of_files
from actors.controller.homes import Homes, noted_in
from actors.controller.launcher import ActorLauncher
from actors.controller.launcher_owner import LauncherOwner, tell_drained
from actors.controller.metadata.standalone import StandaloneLog
from actors.controller.node import alone
from actors.controller.on_loop import OnLoop
from actors.controller.placing import BrokerPlacing
from actors.controller.pool_seals import PoolSeals
from actors.controller.process import ControllerProcess
from actors.controller.ray_actors import ActorsOnRay, RayActors, was_restarted
from actors.controller.settings_in_force import KeptSettings
from actors.controller.spec import ControllerSpec, SpecInForce, VoterStart, start_told
from actors.controller.work_thread import WorkThread
from actors.links.secret import read_secrets
from actors.links.status import ClusterStatus
from actors.links.versions import check_starter
from actors.log.unusable import why_unusable
from actors.runtime import priority
from actors.runtime.logs import TEXT, LogPlace
from actors.runtime.private import keep_private, leave_no_core
from actors.runtime.process import LoopThread, log_to
from actors.runtime.ray_connection import ClusterError
from actors.settings import BrokerConfig

log = logging.getLogger(__name__)

_FAILED_RESTART_SECONDS: Final = 2.0
_EARLIER_MONITOR_SECONDS: Final = 20.0


def settle(config: BrokerConfig, logs: LogPlace, name: str) -> None:
    """Give this process what a controller's has: its files private, its priority, and a log of its own, `name`."""
    keep_private()
    priority.ask(config.integer("coterie.process.niceness"))
    if not config.boolean("coterie.debug.core"):
        leave_no_core()
    log_to(logs, name, role="controller")


def end_process() -> NoReturn:
    """End this process after a while. Ray starts it again; it would give an actor up that raises."""
    time.sleep(_FAILED_RESTART_SECONDS)
    os._exit(1)


def start(
    told: bytes,
    actors_of: Callable[[str], RayActors] = ActorsOnRay,
    restarted: Callable[[], bool] = was_restarted,
    settle: Callable[[BrokerConfig, LogPlace, str], None] = settle,
    give_up: Callable[[], NoReturn] = end_process,
) -> ControllerProcess:
    """Start a controller; `told` is a ControllerStart or a VoterStart, `actors_of` gives the actors of a namespace.

    At the cluster's first start it raises the reason why it cannot: ClusterError, VersionError, OSError. A process that
    Ray has started again gives up instead, and the next one tries.
    """
    again = True  # unless Ray says that it is not so
    try:
        again = restarted()
        arguments = start_told(told)
        check_starter(arguments.starter)
        actors = actors_of(arguments.spec.namespace)
        if isinstance(arguments, VoterStart):
            from actors.controller.voter_starting import voter_started  # most clusters have one controller

            return voter_started(arguments, actors, settle, give_up, restarted=again)
        return _started(arguments.spec, actors, settle, restarted=again)
    except Exception:  # of a bug, too
        if not again:
            raise
        log.exception("this controller cannot start; the next one will try")
        give_up()


def _started(
    first: ControllerSpec,
    actors: RayActors,
    settle: Callable[[BrokerConfig, LogPlace, str], None],
    *,
    restarted: bool,
) -> ControllerProcess:
    spec = SpecInForce(first, _with_later_settings(first, restarted=restarted))
    config = BrokerConfig.from_mapping(spec.now.effective)
    logs = LogPlace(first.log_dir, first.name, config.text("coterie.log.format") or TEXT)
    settle(config, logs, "controller")
    secrets = read_secrets(Path(first.secret_file))
    folder = Path(first.data_dir)
    metadata_log = _opened_log(folder, config, restarted=restarted)
    settings = KeptSettings(folder, lambda: metadata_log.decided, lambda records: loop.commit(records))
    if restarted and (changed := settings.kept()) is not None:
        spec.now = first.with_settings(changed)  # the file may be of another time
    owner = LauncherOwner(lambda: loop, lambda: placing)
    work = WorkThread("coterie-launcher")
    launcher = ActorLauncher(actors, first.namespace, logs, owner, work, spec.now.monitor)
    process = ClusterStatus("", 0, (), first.name, first.data_dir, os.getpid(), actors.node_id)
    thread = LoopThread("coterie-controller")
    node = alone(
        *(metadata_log, InForce(spec.now.of_controller, secrets), launcher, thread.loop),
        process=process,
        from_files=partial(records_of_files, folder),
        restarted=restarted,
    )
    loop = OnLoop(thread, node)
    noted = partial(loop.ask, lambda: noted_in(metadata_log.decided))
    homes = Homes(first.homes_file, noted, loop.commit)
    placing = BrokerPlacing(spec, actors, launcher, homes, loop, restarted=restarted)
    host = first.own_host(actors.address)
    port = loop.wait(node.listen(host))
    if not restarted:
        settings.drop()
    drain_look = DrainLook(launcher.nodes, actors.draining, partial(tell_drained, launcher, loop))
    drain_look.start()
    if restarted:
        launcher.adopt()
        loop.tell(loop.controller.monitoring.await_earlier, _EARLIER_MONITOR_SECONDS)
        loop.tell(loop.controller.expect, placing.place(spec.now.brokers, may_be_away=True))
    pool_seals = PoolSeals(
        folder,
        lambda: metadata_log.decided.pools,
        lambda records: loop.controller.publisher.commit(records),
    )
    return ControllerProcess(spec, settings, (host, port), actors, loop, launcher, placing, pool_seals, drain_look)


def _with_later_settings(spec: ControllerSpec, *, restarted: bool) -> ControllerSpec:
    """The arguments with the settings that were changed since the cluster's start, which drops those from before it."""
    folder = Path(spec.data_dir)
    if not restarted:
        settings_in_force.drop(folder)
        return spec
    changed = settings_in_force.kept(folder)
    return spec if changed is None else spec.with_settings(changed)


def _opened_log(folder: Path, config: BrokerConfig, *, restarted: bool) -> StandaloneLog:
    """The metadata log, with the cluster's first users. Raises ClusterError."""
    path = first_users.log_path(folder)
    if restarted and not path.exists():  # brokers would take an empty cluster for theirs
        raise ClusterError(f"{path} is gone: this node has not the disk of the one that the controller was on")
    try:
        metadata_log = StandaloneLog(path)
        first_users.take(folder, metadata_log)
    except OSError as error:
        raise ClusterError(why_unusable(folder, error)) from error
    wrong = None if restarted else locked_out(metadata_log.decided, config)
    if wrong is not None:
        metadata_log.close()
        raise ClusterError(wrong)
    return metadata_log
