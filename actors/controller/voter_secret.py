"""The cluster's secret in the process of one of several controllers: from the file on its node, or from another one.

A node whose disk was lost has no file. Its controller, which Ray starts again there, asks the others, as a broker does.
"""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Final

from actors.controller.ray_actors import RayActors
from actors.controller.secret_handover import keep
from actors.controller.spec import VoterStart
from actors.links.secret import Secrets, read_secrets
from actors.runtime.controllers import name_of
from actors.runtime.environment import Clock
from actors.runtime.process import last_line
from actors.runtime.ray_connection import ClusterError

log = logging.getLogger(__name__)

_ASK_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 1.0


def secrets_of_voter(told: VoterStart, actors: RayActors, clock: Clock) -> Secrets:
    """The secrets that stand in the file of this node, or else those that another controller hands out.

    The others are asked for a minute: Ray does not start an actor again whose start has failed. Raises ClusterError.
    """
    path = Path(told.spec.secret_file)
    try:
        return read_secrets(path)
    except FileNotFoundError as error:
        missing = error
    except (OSError, ValueError) as error:
        raise _needed(path, error) from error
    others = [each for each in told.controllers if each != told.controller_id]
    deadline, why = clock.monotonic() + _PATIENCE_SECONDS, str(missing)
    while others:
        for each in others:
            try:
                return _asked(told, actors, each)
            except PermissionError as error:  # of the other one: it may not travel so
                raise _needed(path, last_line(error)) from error
            except Exception as error:  # Ray's own, too: that controller is away, or was never started
                why = last_line(error)
        if clock.monotonic() > deadline:
            break
        clock.sleep(_PAUSE_SECONDS)
    raise _needed(path, why) from missing


def _asked(told: VoterStart, actors: RayActors, other: int) -> Secrets:
    here = f"controller {told.controller_id}, on {socket.gethostname()}"
    secrets: Secrets = actors.ask(name_of(other), "hand_out_secret", here, within_s=_ASK_SECONDS)
    keep(told.spec.data_dir, told.spec.secret_file, secrets)
    log.warning("there was no %s: controller %d has handed the cluster's secret out", told.spec.secret_file, other)
    return secrets


def _needed(path: Path, why: object) -> ClusterError:
    text = f"a controller on {socket.gethostname()} needs the cluster's secret: put it into {path} there"
    return ClusterError(f"{text} ({why})")
