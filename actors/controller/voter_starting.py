"""The start of the process of one of several controllers, in one go.

It begins as a voter of the log's quorum, or as one that follows until it has a vote. It is the controller whenever it
leads, and then does what the only controller of a cluster does from its start (`starting`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from actors.controller import first_users
from actors.controller.acceptor import InForce
from actors.controller.active import ActiveController
from actors.controller.decisions.acls import locked_out
from actors.controller.draining import DrainLook
from actors.controller.from_files import records_of_files
from actors.controller.homes import Homes, noted_in
from actors.controller.launcher import ActorLauncher
from actors.controller.launcher_owner import LauncherOwner, tell_drained
from actors.controller.metadata.file import MetadataLogError
from actors.controller.metadata.quorum_log import QuorumLog
from actors.controller.metadata.standalone import SeveralVotersError, StandaloneLog
from actors.controller.metadata.voter_file import VoterFile, open_voter_file
from actors.controller.new_secret import found_in_files
from actors.controller.node import ControllerNode
from actors.controller.on_loop import OnLoop
from actors.controller.placing import BrokerPlacing
from actors.controller.pool_seals import PoolSeals
from actors.controller.process import ControllerProcess
from actors.controller.ray_actors import RayActors
from actors.controller.seeds import Seeds
from actors.controller.settings_in_force import KeptSettings
from actors.controller.spec import SpecInForce, VoterStart
from actors.controller.terms import TermsOfVoter
from actors.controller.voter_orders import OrdersOfQuorum
from actors.controller.voter_secret import secrets_of_voter
from actors.controller.voting import Voting
from actors.controller.work_thread import WorkThread
from actors.links.secret import Marks, Secrets
from actors.links.status import ClusterStatus
from actors.log.unusable import why_unusable
from actors.quorum.elections import Tuning
from actors.runtime.environment import REAL, new_uuid
from actors.runtime.logs import TEXT, LogPlace
from actors.runtime.process import LoopThread
from actors.runtime.ray_connection import ClusterError
from actors.settings import BrokerConfig
from placement.records import METADATA_LEVELS, SHARED

log = logging.getLogger(__name__)

_EARLIER_MONITOR_SECONDS: Final = 20.0


def voter_started(
    told: VoterStart,
    actors: RayActors,
    settle: Callable[[BrokerConfig, LogPlace, str], None],
    give_up: Callable[[], NoReturn],
    *,
    restarted: bool,
) -> ControllerProcess:
    """Start one of several controllers. `give_up` ends the process, if its log has ended: Ray starts it again.

    Raises ClusterError, OSError, MetadataLogError.
    """
    first = told.spec
    config = BrokerConfig.from_mapping(first.effective)
    logs = LogPlace(first.log_dir, first.name, config.text("coterie.log.format") or TEXT)
    settle(config, logs, told.name)
    folder, secret_file = Path(first.data_dir), Path(first.secret_file)
    in_force = InForce(first.of_controller, secrets_of_voter(told, actors, REAL.clock))
    file = _opened(told, restarted=restarted)
    spec = SpecInForce(first, first)
    thread, work = LoopThread("coterie-controller"), WorkThread("coterie-launcher")
    launcher = ActorLauncher(
        actors,
        first.namespace,
        logs,
        LauncherOwner(lambda: loop, lambda: placing),
        work,
        first.monitor,
        of_controller=f"{told.controller_id}.",
    )
    process = ClusterStatus("", 0, (), first.name, first.data_dir, os.getpid(), actors.node_id)
    seeds = Seeds(actors, WorkThread("coterie-seeds"), REAL.clock.monotonic)
    voting = Voting(
        *(in_force, thread.loop, REAL.chance),
        log=lambda: metadata_log,
        seed=seeds.address_of,
        wanted=told.controllers,
        registered=lambda controller: node.registered(controller),
        gone=lambda controller: node.gone(controller),
        learn=lambda marks: node.learn(marks),
    )
    metadata_log = QuorumLog(
        *(file, told.controller_id, Tuning(lambda: REAL.chance.uniform(0, 1)), REAL.clock.monotonic, voting.send),
        changed=lambda: (thread.loop.call_soon(look), None)[1],
        peers=told.controllers,
    )

    def look() -> None:
        node.look()
        terms.look(leads=node.server is not None)

    def serve() -> ActiveController:
        controller = ActiveController(
            *(metadata_log, in_force, launcher, thread.loop),
            process=process,
            from_files=partial(records_of_files, folder),
            others=voting,
        )
        terms.began()
        return controller

    def ended(error: Exception) -> None:
        log.error("this controller's log has ended: %s", error)
        give_up()

    async def find(marks: Marks) -> Secrets:
        ours = not spec.now.config.get("coterie.secret.file")
        return found_in_files(secret_file, in_force.secrets, marks, ours=ours)

    node = ControllerNode(metadata_log, in_force, thread.loop, serve, voting, failed=ended, find=find)
    loop = OnLoop(thread, node)
    settings = KeptSettings(folder, lambda: metadata_log.decided, loop.commit)
    homes = Homes(
        folder / told.name / first.homes_file.name,
        partial(loop.ask, lambda: noted_in(metadata_log.decided)),
        loop.commit,
    )
    placing = BrokerPlacing(spec, actors, launcher, homes, loop, restarted=True)

    def take_over() -> None:
        changed = settings.kept()
        spec.now = first if changed is None else first.with_settings(changed)
        launcher.tell_monitor_otherwise(spec.now.monitor)
        launcher.take_over()
        loop.tell(loop.controller.monitoring.await_earlier, _EARLIER_MONITOR_SECONDS)
        loop.tell(loop.controller.expect, placing.place(spec.now.brokers, may_be_away=True))

    def begin() -> None:
        wrong = loop.ask(locked_out, loop.controller.decided, config)
        if wrong is not None:
            raise ClusterError(wrong)
        spec.now = first
        settings.drop()
        launcher.take_over()

    has_log = bool(metadata_log.voters)
    terms = TermsOfVoter(work, take_over, begin, launcher.rest, started=restarted, has_log=has_log)
    host = first.own_host(actors.address)
    port = loop.wait(node.listen(host))
    drain_look = DrainLook(launcher.nodes, actors.draining, partial(tell_drained, launcher, loop))
    drain_look.start()
    pool_seals = PoolSeals(
        folder,
        lambda: metadata_log.decided.pools,
        lambda records: loop.controller.publisher.commit(records),
    )
    orders = OrdersOfQuorum(
        metadata_log, lambda records: loop.controller.publisher.commit(records), REAL.clock.monotonic
    )
    parts = (loop, launcher, placing, pool_seals, drain_look)
    return ControllerProcess(spec, settings, (host, port), actors, *parts, terms, orders)


def _opened(told: VoterStart, *, restarted: bool) -> VoterFile:
    """This voter's file, with a log if it is the one that founds the cluster. Raises ClusterError."""
    folder = Path(told.spec.data_dir)
    path = folder / told.name / first_users.log_path(folder).name
    try:
        if told.founds and not restarted:
            _found(folder, path)
        return open_voter_file(path, lambda: new_uuid(REAL.chance).hex)
    except OSError as error:
        raise ClusterError(why_unusable(folder, error)) from error
    except MetadataLogError as error:
        raise ClusterError(str(error)) from error


def _found(folder: Path, path: Path) -> None:
    """Have a log with the first users, if there is none: that of a controller that is alone, which others join."""
    try:
        alone = StandaloneLog(path)
    except SeveralVotersError:
        return  # it has others already
    try:
        first_users.take(folder, alone)
        level = alone.decided.level
    finally:
        alone.close()
    if level < SHARED:  # changed settings and the key of pools are files of one node below it
        raise ClusterError(
            f"metadata.version is {level}, and several controllers need {SHARED}: start the cluster with one, raise it "
            f"to {METADATA_LEVELS[-1]}, and start it again with several"
        )
