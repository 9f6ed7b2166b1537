"""A start's checks and preparations before processes run: settings, ports, the data directory, a folder for sockets."""

from __future__ import annotations

import contextlib
import hmac
import os
import secrets
import socket
import stat
import tempfile
import time
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

from actors.broker.entrance.listening import taken
from actors.controller.listeners import ListenerPlan, check_apart, open_to_others
from actors.controller.pool_seals import POOLS_KEY
from actors.controller.securing import AUTHORITY, PROPERTIES
from actors.links.secret import SECRET_BYTES, read_secret
from actors.log.folder_lock import LOCK_NAME, is_locked
from actors.log.unusable import why_unusable
from actors.runtime.data_folder import UntrustedError, prepared
from actors.runtime.private import FOLDER_MODE, private_folder, write_private
from actors.runtime.ray_folder import SOCKET_PATH_MAX, listens
from actors.runtime.ray_runtime import ADDRESS_FILE, TOKEN_FILE, ClusterError
from actors.settings import BrokerConfig, SecurityProtocol, SettingError, broker_setting, without_effect
from actors.settings.logins import untold_of_tokens

_DYING_SECONDS = 10.0
_OLD_SECONDS = 60.0
_MARK_LENGTH = 12
_FILES = {
    "ssl.key.password": "coterie.ssl.key.password.file",
    "ssl.keystore.key": "ssl.keystore.location",
    "ssl.keystore.certificate.chain": "ssl.keystore.location",
    "ssl.truststore.certificates": "ssl.truststore.location",
}
_IN_CLEAR = {"PLAIN": "passwords", "OAUTHBEARER": "tokens"}
_PRIVATE = ("secret", "secret.next", "secret.previous", POOLS_KEY, TOKEN_FILE, ADDRESS_FILE, PROPERTIES)
_PUBLIC = (AUTHORITY,)
_FOLDERS = ("controller", "logs", "monitor")
_TRIAL_BYTES = 64 << 10


def effective_config(settings: dict[str, str], brokers: int) -> tuple[dict[str, str], list[str]]:
    """The settings for the processes of a cluster of so many brokers, and notes for the user. Raises SettingError."""
    config = BrokerConfig.from_mapping(settings)
    idle = sorted(name for name in config.explicit if without_effect(name))
    for name in sorted(config.explicit.difference(idle)):
        _refuse_secret(name)
    settings = {name: "" if broker_setting(name).sensitive else text for name, text in settings.items()}
    notes = [f"accepted, but without effect here: {', '.join(idle)}"] if idle else []
    factor = "offsets.topic.replication.factor"
    if factor not in config.explicit and brokers < config.integer(factor):
        # A small cluster gets what it can hold, rather than no coordinator at all.
        wanted = config.integer(factor)
        settings = {**settings, factor: str(brokers)}
        notes.append(f"{factor}={brokers} (not {wanted}): there are {brokers} broker(s)")
    return settings, notes


def _refuse_secret(name: str) -> None:
    """Ray keeps what processes are started with, where we cannot look after it."""
    if broker_setting(name).sensitive:
        file = next((file for key, file in _FILES.items() if name.endswith(key)), None)
        hint = f": name a file on each node, by {file}" if file else ""
        raise SettingError(name, f"{name} is a secret, and brokers' settings travel through Ray{hint}")


def warn_if_open(listeners: tuple[ListenerPlan, ...], config: BrokerConfig) -> None:
    """Warn of listeners that other machines may reach and that ask nobody who he is, or for secrets in clear.

    And of those, wherever they are, that take tokens which may be meant for somebody else.
    """
    for listener in open_to_others(listeners):
        text = None
        if not listener.asks:
            text = "asks for no authentication: anyone who reaches this address can read and write"
        elif listener.protocol is SecurityProtocol.SASL_PLAINTEXT:
            mechanisms = config.for_listener(listener.listener).items_of("sasl.enabled.mechanisms")
            if what := " and ".join(what for name, what in _IN_CLEAR.items() if name in mechanisms):
                text = f"takes {what} in clear: anyone on the way can read them; use SASL_SSL, or SCRAM alone"
        if text is not None:
            warnings.warn(f"listener {listener.listener} on {listener.host} {text}", stacklevel=3)
    for listener in listeners:
        unset = untold_of_tokens(config.for_listener(listener.listener)) if listener.protocol.sasl else []
        if unset:
            text = f"takes tokens that may be meant for others: {' and '.join(unset)} would say which ones are for it"
            warnings.warn(f"listener {listener.listener} {text}", stacklevel=3)


def check_ports(listeners: tuple[ListenerPlan, ...], brokers: int, folder: Path, *, here: bool) -> None:
    """Raise ClusterError if a port is out of range, meant twice, or, where brokers run `here`, taken.

    After a cluster was killed its processes live on for about two seconds, so that their ports are waited for.
    """
    check_apart(listeners, brokers)
    deadline = time.monotonic() + _DYING_SECONDS
    for listener in listeners:
        if not here or not listener.port or listener.host is None:
            continue
        for number in listener.ports(brokers):
            while (error := _port_taken(listener.host, number)) is not None:
                if not _is_held(folder) or time.monotonic() > deadline:
                    raise ClusterError(taken(listener.host, number, listener.chosen_by, error)) from error
                time.sleep(0.05)


def left_out(removed: Sequence[int], started: int) -> tuple[str, ...]:
    """A note of the brokers of a start that were removed; none if none was."""
    if not removed:
        return ()
    which = f"broker {removed[0]} was" if len(removed) == 1 else f"brokers {', '.join(map(str, removed))} were"
    made = f"the cluster has {started} broker{'s' if started > 1 else ''}"
    return (f"{which} removed, and not started: {made}; coterie brokers add makes more, with new ids",)


def check_free(listeners: tuple[ListenerPlan, ...], brokers: int, but: Collection[int]) -> None:
    """Raise ClusterError if a port is taken that brokers are to have here; `but` are those that they have."""
    for listener in listeners:
        if not listener.port or listener.host is None:
            continue
        for number in listener.ports(brokers):
            error = None if number in but else _port_taken(listener.host, number)
            if error is not None:
                raise ClusterError(taken(listener.host, number, listener.chosen_by, error)) from error


def _port_taken(host: str, port: int) -> OSError | None:
    """The error of trying to listen at the port; None if it is free."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None


def _is_held(folder: Path) -> bool:
    """True if some process has a directory of this cluster locked."""
    return any(is_locked(path.parent) for path in folder.glob(f"*/{LOCK_NAME}"))


def prepare_folder(folder: Path, secret_file: str | None = None) -> Path:
    """Make a data directory, with its secret, if it is not there; the secret's file. Raises ClusterError.

    `secret_file` is the value of coterie.secret.file: no other secret is made then.
    """
    try:
        place = prepared(
            folder, _PRIVATE, _PUBLIC, [*_FOLDERS, *_some(folder, "broker-*"), *_some(folder, "controller-*")]
        )
        (folder / "controller").mkdir(mode=FOLDER_MODE, exist_ok=True)
        _try_out(place)
        secret = Path(secret_file) if secret_file else place / "secret"
        if not secret_file and not secret.exists():
            write_private(secret, secrets.token_hex(SECRET_BYTES))
        if not (place / POOLS_KEY).exists():
            write_private(place / POOLS_KEY, secrets.token_hex(SECRET_BYTES))
    except UntrustedError as error:
        raise ClusterError(f"data directory {error}") from None
    except OSError as error:
        raise ClusterError(why_unusable(folder, error)) from None
    try:
        read_secret(secret)
    except (OSError, ValueError) as error:
        raise ClusterError(f"the cluster's secret cannot be read: {error}") from error
    return secret


def _some(folder: Path, pattern: str) -> list[str]:
    """The names of these folders in a data directory, as far as they are there."""
    return [each.name for each in folder.glob(pattern)]


def _try_out(place: Path) -> None:
    """Write something that leaves nothing behind: better now than when Ray runs. Raises OSError."""
    with tempfile.TemporaryFile(dir=place) as file:
        file.write(bytes(_TRIAL_BYTES))
        file.flush()
        os.fsync(file.fileno())


def socket_dir(folder: Path, secret: Path) -> Path:
    """A short private folder for Unix sockets, the same for every start of a data directory.

    Only who knows the cluster's secret can tell its name, and put something of that name in the way.
    """
    mark = hmac.new(read_secret(secret), str(folder).encode(), "sha256").hexdigest()[:_MARK_LENGTH]
    path = Path(tempfile.gettempdir()) / f"coterie-{mark}"
    sweep_socket_dirs(path.parent)
    try:
        private_folder(path)
    except OSError as error:
        raise ClusterError(str(error)) from error
    if len(str(path / "999.sock")) > SOCKET_PATH_MAX:
        raise ClusterError(f"{path} is too long for a Unix socket: set TMPDIR to a shorter path")
    return path


def sweep_socket_dirs(parent: Path) -> None:
    """Remove the socket folders of clusters that were killed: old ones in which nobody listens."""
    for path in parent.glob("coterie-" + "[0-9a-f]" * _MARK_LENGTH):
        with contextlib.suppress(OSError):  # another user's, or one that goes just now
            entry = path.lstat()
            ours = entry.st_uid == os.getuid() and stat.S_ISDIR(entry.st_mode)
            sockets = list(path.iterdir()) if ours and time.time() - entry.st_mtime > _OLD_SECONDS else None
            if sockets is None or not all(each.suffix == ".sock" for each in sockets) or any(map(listens, sockets)):
                continue
            for each in sockets:
                each.unlink()
            path.rmdir()
