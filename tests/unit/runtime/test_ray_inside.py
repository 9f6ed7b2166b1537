"""This Ray has every name and word that `ray_inside` uses. The test names a missing one, and the code that needs it."""

from __future__ import annotations

import importlib
import mmap
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import ray

from actors.runtime import ray_inside
from tests.support.ray_inside import SOURCE, Name, constants, lost, names

PACKAGE = Path(ray.__file__).parent
NAMES = names(SOURCE.read_text())


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_ray_has_the_name(name: Name) -> None:
    assert not lost(name), lost(name)


def test_every_function_that_reaches_into_ray_is_walked() -> None:
    said = "\n".join(map(str, NAMES))
    for each in (
        "knock: ray._raylet.GcsClient",
        "has_token: ray._raylet.AuthenticationTokenLoader.instance().has_token",
        "is_placed: ray.actor.ActorHandle: _actor_id",
        "started_by: ray._private.services.ConsolePopen",
        "call_without_limit: ray.data._internal.execution.execution_callback.ExecutionCallback",
        "call_without_limit: ray.data._internal.execution.streaming_executor.StreamingExecutor: _topology",
    ):
        assert each in said


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("    return ray._raylet.lost_call(address=1)", "ray._raylet.lost_call"),
        ("    from ray.data._internal.lost import Lost", "ray.data._internal.lost.Lost"),
        ("    return actor._lost.hex()", "_lost of ray.actor.ActorHandle"),
    ],
)
def test_a_name_that_a_ray_has_lost_is_said_with_the_ray_and_the_function_that_needs_it(code: str, name: str) -> None:
    source = f'def ours(actor: ray.actor.ActorHandle) -> None:\n    """Does the work."""\n{code}\n'
    (said,) = filter(None, map(lost, names(source)))
    assert said.startswith(f"Ray {ray.__version__} has no {name} any more (")
    assert said.endswith(": ray_inside.py needs it in ours(): Does the work.")


def _in(*files: str) -> Callable[[str], bool]:
    """A check that a word stands in all of these files of Ray's."""

    def found(word: str) -> bool:
        for each in files:
            with open(PACKAGE / each, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
                if text.find(word.encode()) < 0:
                    return False
        return True

    return found


def _a_file(pattern: str) -> bool:
    """True if Ray's package, whose folder's name may begin the pattern, has such a file."""
    return any(PACKAGE.glob(f"**/{pattern.removeprefix('ray/')}"))


def _a_module(name: str) -> bool:
    importlib.import_module(name)
    return True


RAYLET, GCS, DRIVER = "core/src/ray/raylet/raylet", "core/src/ray/gcs/gcs_server", "_raylet.so"
NODE = "_private/node.py"
WORDS: dict[str, Callable[[str], bool]] = {
    "CALM": _in(RAYLET),
    "NICENESS": _in(RAYLET),
    "SHORT_FAREWELL": _in(DRIVER),
    "STORE": _in(DRIVER, NODE),
    "FILES": _in(GCS, NODE),
    "STORE_PATH": _in(DRIVER),
    "REDIS": _in(NODE),
    "STORES": _in(NODE),
    "RECONNECT": _in(RAYLET),
    "GCS_PORT": _in("_private/ray_constants.py"),
    "RAYLET_PID": _in(RAYLET),
    "JOB_ID": _in(RAYLET),
    "CORE": _a_file,
    "WORKER": _a_file,
    "DASHBOARD": _a_file,
    "MINIMAL": _in("_private/services.py"),
    "HELPERS": _a_file,
    "DASHBOARD_AGENT": _a_file,
    "DASHBOARD_AGENT_PORTS": _in(DRIVER, RAYLET),
    "RUNTIME_ENV_AGENT": _a_file,
    "RUNTIME_ENV_PORT": _in("_private/services.py"),
    "AGENT_ARGUMENTS": _in("dashboard/agent.py", "_private/runtime_env/agent/main.py"),
    "WARM": _a_module,
    "_TAKEN": _in(GCS),
    "_SLOW": _in(NODE),
}
"""The function that looks for the words of each constant."""
SEEN_ALIVE = {"THREADS", "SOCKETS", "LONGEST_SOCKET", "LOGS"}
"""Words that only a Ray that runs shows: tests/ray/test_ray_inside.py."""


@pytest.mark.parametrize("constant", WORDS)
def test_ray_has_the_word(constant: str) -> None:
    value = getattr(ray_inside, constant)
    missing = [word for word in ([value] if isinstance(value, str) else value) if not WORDS[constant](word)]
    assert not missing, f"Ray {ray.__version__} has no {', '.join(missing)} any more: ray_inside.{constant} is about it"


def test_every_word_is_looked_for() -> None:
    assert constants(SOURCE.read_text()) == WORDS.keys() | SEEN_ALIVE


def test_a_program_that_ends_by_an_exception_shows_it_without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", ray._private.worker.custom_excepthook)
    ray_inside.let_exceptions_out()
    assert sys.excepthook is ray._private.worker.normal_excepthook
