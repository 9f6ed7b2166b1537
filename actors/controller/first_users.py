"""The first users of a cluster: who may log in before anybody can be added by one who has.

The program that starts the cluster makes their SCRAM credentials, and leaves them in a file that only its user can
read. The controller takes them into the metadata log before any broker runs, and removes the file. Neither has the
passwords themselves.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from actors.controller.decisions.users import kept
from actors.controller.metadata.log import Log
from actors.links.operations import ScramUpsertion
from actors.runtime.environment import REAL, Chance
from actors.runtime.private import first_line, write_private
from actors.security.add_scram import ASKED_FOR, AddScram, AddScramError, parse_add_scram

_LOG: Final = Path("controller", "metadata.log")
_LEFT: Final = Path("controller", "first-users.json")
_LEAVING: Final = Path("controller", "first-users.new")


def log_path(folder: Path) -> Path:
    """The metadata log of a data directory."""
    return folder / _LOG


def made(texts: Sequence[str], chance: Chance, ask: Callable[[str], str] | None = None) -> list[ScramUpsertion]:
    """The SCRAM credentials of these first users. `ask` asks for the password of a user. Raises AddScramError."""
    users = [parse_add_scram(text) for text in texts]
    names = [(each.name, each.mechanism) for each in users]
    if len(set(names)) < len(names):
        raise AddScramError("a first user is named twice for one mechanism")
    return [_upsertion(user, _password(user, ask), chance) for user in users]


def _password(user: AddScram, ask: Callable[[str], str] | None) -> str | None:
    if user.password_file is not None:
        try:
            return first_line(Path(user.password_file))
        except (OSError, ValueError) as error:
            raise AddScramError(f"the password of {user.name!r} cannot be read: {error}") from None
    if user.password == ASKED_FOR:
        if ask is None:
            raise AddScramError("password=- asks for the password, which only `coterie up` can do")
        return ask(user.name)
    return user.password


def _upsertion(user: AddScram, password: str | None, chance: Chance) -> ScramUpsertion:
    made = user.credential(password, chance.randbytes)
    return ScramUpsertion(user.name, user.mechanism.code, made.salt, made.stored_key, made.server_key, made.iterations)


def leave(folder: Path, users: Sequence[ScramUpsertion]) -> None:
    """Leave first users for the controller of a data directory. Raises AddScramError if that has a cluster already."""
    if log_path(folder).exists():
        raise AddScramError(
            f"data directory {folder} has a cluster already, whose users are set by `coterie users set`, or while "
            f"nobody can log in by `coterie users set NAME --offline {folder}`"
        )
    withdraw(folder)
    write_private(folder / _LEAVING, json.dumps([_to_json(user) for user in users]))
    os.replace(folder / _LEAVING, folder / _LEFT)  # all of them, whenever the start is killed


def withdraw(folder: Path) -> None:
    """Remove what was left, because the start has failed."""
    for path in (_LEAVING, _LEFT):
        (folder / path).unlink(missing_ok=True)


def take(folder: Path, metadata_log: Log, chance: Chance = REAL.chance) -> None:
    """Take the first users that were left into the log, and remove the file. Raises OSError.

    They are one write. Whoever is killed between the two takes the same ones again at the next start.
    """
    path = folder / _LEFT
    if path.exists():
        set_offline(metadata_log, [_from_json(user) for user in json.loads(path.read_text())], chance)
        os.unlink(path)


def set_offline(metadata_log: Log, users: Sequence[ScramUpsertion], chance: Chance) -> None:
    """Set passwords in the log of a cluster that does not run. Raises OSError."""
    metadata_log.append(kept(metadata_log.decided, users, lambda: chance.randbytes(16)), metadata_log.next_epoch)


def _to_json(user: ScramUpsertion) -> list[Any]:
    keys = (base64.b64encode(each).decode() for each in (user.salt, user.stored_key, user.server_key))
    return [user.user, user.mechanism, *keys, user.iterations]


def _from_json(fields: list[Any]) -> ScramUpsertion:
    user, mechanism, *keys, iterations = fields
    salt, stored_key, server_key = map(base64.b64decode, keys)
    return ScramUpsertion(user, mechanism, salt, stored_key, server_key, iterations)
