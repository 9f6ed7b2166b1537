"""Several files name the Pythons that Coterie runs on, and the lock file has the packages that each of them needs."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from tests.conftest import first_cases

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SERVED = SpecifierSet(PROJECT["requires-python"])
PYTHONS = [f"3.{minor}" for minor in range(30) if f"3.{minor}" in SERVED]


@pytest.mark.parametrize(("file", "line"), [("Makefile", r"PYTHONS := (.+)"), (".ci/run", r'pythons="(.+)"')])
def test_make_and_the_gate_take_the_pythons_that_the_package_allows(file: str, line: str) -> None:
    (found,) = re.findall(rf"^{line}$", (ROOT / file).read_text(), re.MULTILINE)
    assert found.split() == PYTHONS


def test_classifiers_and_the_table_of_installs_name_the_same_pythons() -> None:
    """Both name the Pythons that were tried, which may be fewer than those allowed."""
    prefix = "Programming Language :: Python :: "
    tried = [each.removeprefix(prefix) for each in PROJECT["classifiers"] if each.startswith(prefix)]
    rows = re.findall(r"^\| Python (3\.\d+) \|", (ROOT / "docs/deployment.md").read_text(), re.MULTILINE)
    assert tried == rows
    assert set(tried) <= set(PYTHONS)


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_file_pins_all_that_a_python_installs(python: str) -> None:
    pins = dict(pinned("requirements.lock", python))
    for each in required(python):
        assert each.name in pins, f"{each} is not in requirements.lock for Python {python}: make lock"
        assert each.specifier.contains(pins[each.name]), f"{each}, but {pins[each.name]} is locked: make lock"


@pytest.mark.parametrize("python", PYTHONS)
def test_no_python_is_given_two_versions_of_a_package(python: str) -> None:
    names = [name for lock in ("requirements.lock", "requirements-jobs.lock") for name, _ in pinned(lock, python)]
    assert len(names) == len(set(names))


def test_another_python_runs_each_test_once() -> None:
    names = [
        "a.py::test_x[1]",
        "a.py::test_y",
        "a.py::test_x[2[",
        "b.py::test_x[1]",
        "a.py::T::test_x",
        "a.py::test_x[3]",
    ]
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in names]
    kept = ["a.py::test_x[1]", "a.py::test_y", "b.py::test_x[1]", "a.py::T::test_x"]
    assert [item.nodeid for item in first_cases(items)] == kept


def required(python: str) -> Iterator[Requirement]:
    for text in (*PROJECT["dependencies"], *(each for extra in EXTRAS for each in extra)):
        requirement = Requirement(text)
        if requirement.name != PROJECT["name"] and holds(requirement, python):
            yield requirement


EXTRAS = [PROJECT["optional-dependencies"][name] for name in ("demo", "dev", "tls")]  # as in the Makefile; dev has tls


def pinned(lock: str, python: str) -> Iterator[tuple[str, str]]:
    """Name and version of each package that this Python takes from a lock file."""
    for line in (ROOT / lock).read_text().splitlines():
        if "==" in line and not line.startswith((" ", "#")):
            requirement = Requirement(line.removesuffix("\\"))
            if holds(requirement, python):
                (pin,) = requirement.specifier
                yield requirement.name, pin.version


def holds(requirement: Requirement, python: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate(
        {"python_version": python, "python_full_version": f"{python}.0"}
    )
