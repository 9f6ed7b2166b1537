"""`python -m tools.another_python PYTHON`: whether Coterie works on another Python than the one the tests run on.

The wheel is installed in an empty environment, with the versions of the lock file and nothing else, and serves there: a
command that starts a cluster, a group, a pool (`another_python_serves`). Then the rest of the lock file is installed,
and tests/unit and tests/component run. Another Python has another compiler, standard library and builds of packages:
what they change for a test shows in one of its cases. So each test runs, but of its cases the first alone
(`--first-case` of tests/conftest.py), and most properties with ten examples. `LEFT_OUT` names what does not run.

It is made to be short. Most of its time went to what is the same on each Python: every process of pytest rewrote all
assertions, so as to show the values of one that fails. Here they stay as they are, and what fails names its line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
SERVES: Final = Path(__file__).with_name("another_python_serves.py")
SELECTION: Final = (
    "each test of tests/unit and tests/component, of several cases the first, of most properties ten examples"
)
LEFT_OUT: Final = {
    "tests/unit/house/test_snippets.py": "mypy reads pages there, and as of Python 3.11 wherever it runs",
}
OPTIONS: Final = ("-n", "4", "--assert=plain", "--first-case", "--hypothesis-profile=few")
FOLDERS: Final = ("tests/unit", "tests/component")
UV: Final = (sys.executable, "-m", "uv", "--quiet")
NOT_PASSED_ON: Final = {
    "PYTHONPATH",  # of the environment that this one is not to see
    "VIRTUAL_ENV",
    "PYTHONDONTWRITEBYTECODE",  # with it, each process compiles all that it imports
}


def main() -> None:
    """Take the steps one after the other; the first that fails ends it."""
    (python,) = sys.argv[1:]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="coterie-python-") as folder:
        own = environment(Path(folder), python)
        install_wheel(Path(folder), own)
        say("the wheel is installed, by itself", begun)
        serves(Path(folder), own)
        say("a cluster, a group and a pool have worked", begun)
        run(*UV, "pip", "install", "--python", own, "--require-hashes", "--requirement", "requirements.lock")
        say("what the tests need is installed", begun)
        print(f"{version(own)} runs {SELECTION}", flush=True)
        for left, why in LEFT_OUT.items():
            print(f"without {left}: {why}", flush=True)
        run(own, "-m", "pytest", *OPTIONS, *FOLDERS, *(f"--ignore={left}" for left in LEFT_OUT))
        say("all has worked", begun)


def environment(folder: Path, python: str) -> str:
    """An empty virtual environment; its Python."""
    run(python, "-m", "venv", "--without-pip", str(folder / "venv"))
    return str(folder / "venv/bin/python")


def install_wheel(folder: Path, python: str) -> None:
    """The wheel of this source, and what it requires."""
    run(*UV, "build", "--wheel", "--no-build-isolation", "--out-dir", str(folder))
    (wheel,) = folder.glob("*.whl")
    run(*UV, "pip", "install", "--python", python, "--constraint", "requirements.lock", str(wheel))
    run(*UV, "pip", "check", "--python", python)


def serves(folder: Path, python: str) -> None:
    """Try the installed package in a folder that has nothing of ours, so that nothing is taken from the source."""
    empty = folder / "empty"
    empty.mkdir()
    run(python, str(SERVES), cwd=empty)


def version(python: str) -> str:
    """Such as Python 3.13.0."""
    return subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def run(*command: str, cwd: Path = ROOT) -> None:
    """A command that must succeed."""
    environ = {name: value for name, value in os.environ.items() if name not in NOT_PASSED_ON}
    if subprocess.run(command, cwd=cwd, env=environ, check=False).returncode:
        sys.exit(f"on another Python this failed: {' '.join(command)}")


def say(what: str, begun: float) -> None:
    """A line with the time so far."""
    print(f"{what}: {time.monotonic() - begun:.0f} s", flush=True)


if __name__ == "__main__":
    main()
