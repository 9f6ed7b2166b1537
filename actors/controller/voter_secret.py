"""The cluster's secret in the process of one of several controllers: from the file on its node, or from another one.

A node whose disk was lost has no file. Its controller, which Ray starts again there, asks the others, as a broker does:
the one that leads hands it out, as it knows the settings that are in force.
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
from actors.runtime.controllers import is_controller, name_of
from actors.runtime.data_folder import UntrustedError
from actors.runtime.environment import Clock
from actors.runtime.process import last_line
from actors.runtime.ray_connection import ClusterError

log = logging.getLogger(__name__)

_ASK_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 1.0


def secrets_of_voter(told: VoterStart, actors: RayActors, clock: Clock) -> Secrets:
    """The secrets that stand in the file of this node, or else those that the controller that leads hands out.

    For a minute: then this process ends, and Ray starts another one. Raises ClusterError.
    """
    path = Path(told.spec.secret_file)
    try:
        return read_secrets(path)
    except FileNotFoundError as error:
        missing = error
    except (OSError, ValueError) as error:
        raise _needed(path, error) from error
    try:
        secrets = _handed_out(told, actors, clock)
        keep(told.spec.data_dir, told.spec.secret_file, secrets)
    except (OSError, UntrustedError) as error:  # also the other one's: it may not travel so
        raise _needed(path, last_line(error)) from missing
    return secrets


def _handed_out(told: VoterStart, actors: RayActors, clock: Clock) -> Secrets:
    """The secret, from another controller. Raises PermissionError, and FileNotFoundError with the last reason."""
    deadline = clock.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return _ask_others(told, actors)
        except PermissionError:
            raise
        except Exception as error:  # Ray's own, too: it is away or busy, or no controller leads
            why = last_line(error)
        if clock.monotonic() > deadline:
            raise FileNotFoundError(why)
        clock.sleep(_PAUSE_SECONDS)


def _ask_others(told: VoterStart, actors: RayActors) -> Secrets:
    """The secret, from the first controller that hands it out. Raises PermissionError, and what the last one raised."""
    here = f"controller {told.controller_id}, on {socket.gethostname()}"
    failure: Exception = LookupError("there is no other controller")
    for each in actors.names():
        if not is_controller(each) or each == name_of(told.controller_id):
            continue
        try:
            secrets: Secrets = actors.ask(each, "hand_out_secret", here, within_s=_ASK_SECONDS)
        except PermissionError:
            raise
        except Exception as error:  # Ray's own, too: it is away, or does not lead
            failure = error
        else:
            log.warning("there was no %s: %s has handed the secret out", told.spec.secret_file, each)
            return secrets
    raise failure


def _needed(path: Path, why: object) -> ClusterError:
    text = f"a controller on {socket.gethostname()} needs the cluster's secret: put it into {path} there"
    return ClusterError(f"{text} ({why})")
