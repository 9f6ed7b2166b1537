"""Another secret for a cluster that runs (`links/secret` has the order of it). Each step can be repeated.

The files are those of the controller's node. A broker on another node finds the secrets in files of its own, whatever
they are called there, or asks for them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from actors import CoterieError
from actors.links.operations import LearnSecrets
from actors.links.secret import (
    SECRET_BYTES,
    Marks,
    Secrets,
    found_at,
    next_of,
    previous_of,
    read_secret,
    read_secrets,
)
from actors.log.files import REAL_WRITER
from actors.runtime.environment import REAL, Chance
from actors.settings import BrokerConfig

if TYPE_CHECKING:  # drivers import this with the controller's actor, and would start later
    from actors.controller.active import ActiveController
    from actors.controller.sessions import Session

_LEARN_SECONDS = 15.0


class NewSecretError(CoterieError):
    """A secret cannot be changed now; the text says why and what to do."""


async def begin(server: ActiveController, path: Path, *, make: bool = True, chance: Chance = REAL.chance) -> None:
    """Have all know the secret that is to follow the one in `path`; to `make` it, if it is not there, is ours.

    Raises NewSecretError, OSError.
    """
    if server.secrets.previous is not None:
        raise NewSecretError(
            f"{previous_of(path)} is still valid: once all brokers have been restarted since (coterie brokers roll), "
            "have it forgotten by coterie brokers roll --forget-old-secret"
        )
    following = next_of(path)
    if not following.exists():
        if not make:
            raise NewSecretError(f"coterie.secret.file is set: put the new secret into {following}, on each node")
        REAL_WRITER.write_atomically(following, chance.randbytes(SECRET_BYTES).hex().encode())
    await _believe(server, path)


async def use(server: ActiveController, path: Path) -> None:
    """Have the secret that all know be the cluster's. The one before is valid, too. Raises NewSecretError, OSError."""
    REAL_WRITER.write_atomically(previous_of(path), server.secrets.current.hex().encode())
    os.replace(next_of(path), path)
    REAL_WRITER.fsync_directory(path.parent)
    await _believe(server, path)


async def forget(server: ActiveController, path: Path, hang_up: Callable[[], None] | None = None) -> None:
    """Have the secret before be valid no longer. Raises NewSecretError, OSError.

    `hang_up` closes the connections that it has opened; None from a controller that an earlier build has started.
    """
    users = [str(broker_id) for broker_id, each in sorted(server.brokers.items()) if _uses_former(server, each)]
    if users:
        raise NewSecretError(f"restart broker(s) {', '.join(users)} first: connected by {previous_of(path)}")
    previous_of(path).unlink(missing_ok=True)
    await _believe(server, path)
    if hang_up is not None:
        hang_up()
    else:
        from actors.controller.server import ControllerServer

        assert isinstance(server, ControllerServer)
        server.close_unauthenticated()


def _uses_former(server: ActiveController, session: Session) -> bool:
    return session.protocol.proved_by not in (None, server.secrets.current)


async def _believe(server: ActiveController, path: Path) -> None:
    """Take over the secrets that stand in the files now, and have the other controllers and living brokers do so."""
    try:
        server.in_force.secrets = secrets = read_secrets(path)
    except ValueError as error:
        raise NewSecretError(str(error)) from error
    files = " and ".join(map(str, _files(path, secrets)))
    try:
        await server.others.learn(secrets.marks, _LEARN_SECONDS)
    except ConnectionError as error:
        raise NewSecretError(f"{error}; its node needs {files} as this one") from error
    for broker_id, session in sorted(server.brokers.items()):
        try:
            await session.calls.ask(LearnSecrets(secrets.marks), _LEARN_SECONDS)
        except (OSError, TimeoutError) as error:
            text = f"broker {broker_id} has not got the cluster's secrets: {error}; its node needs {files} as this one"
            raise NewSecretError(text) from error


def found_in_files(path: Path, known: Secrets, marks: Marks, *, ours: bool) -> Secrets:
    """The secrets with these marks, of those that stand in the files of another controller or are `known` to it.

    The files are then as those of the one that leads, if they are `ours`: a start from them believes the same. Raises
    OSError.
    """
    secrets = marks.among([*found_at(path), *known.known])
    if secrets is None or secrets.marks != marks:
        raise ConnectionError("there is none with that mark")
    if ours:
        keep_in_files(path, secrets)
    return secrets


def keep_in_files(path: Path, secrets: Secrets) -> None:
    """Have these secrets stand in a node's file and beside it, and no others. Raises OSError."""
    kept = ((secrets.previous, previous_of(path)), (secrets.current, path), (secrets.next, next_of(path)))
    for secret, where in kept:  # in this order: at any time each secret that is valid stands in one of them
        if secret is None:
            where.unlink(missing_ok=True)
        elif not where.exists() or read_secret(where) != secret:
            REAL_WRITER.write_atomically(where, secret.hex().encode())


def why_not_through_ray(config: BrokerConfig, secret_file: str, who: str, *, token: bool) -> str | None:
    """The reason why a process without the secret, `who`, may not get it through Ray; None if it may.

    `token`: whether this Ray asks for one.
    """
    named = config.text("coterie.secret.file")
    if named:
        return f"coterie.secret.file={named} is set: no secret goes through Ray; put that file on the node of {who}"
    if config.link_security.encrypts:
        return (
            f"connections between processes are in TLS (coterie.internal.security): no secret goes through Ray; "
            f"put {secret_file} on the node of {who}, or set coterie.secret.file"
        )
    if not token:
        return (
            f"this Ray asks for no token (RAY_AUTH_MODE): no secret goes through it; put {secret_file} on the node of "
            f"{who}, or set coterie.secret.file"
        )
    return None


def _files(path: Path, secrets: Secrets) -> list[Path]:
    others = ((secrets.next, next_of(path)), (secrets.previous, previous_of(path)))
    return [path, *(where for secret, where in others if secret is not None)]
