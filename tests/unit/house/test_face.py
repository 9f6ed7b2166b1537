"""The one name that programs import: `coterie`."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import pkgutil
from pathlib import Path

import pytest

import actors
import coterie
import placement
import spark_bridge
from actors import CoterieError

NEEDS_RAYDP = {"spark_bridge.launch"} if importlib.util.find_spec("raydp") is None else set()
"""Every other module can be imported where Spark is not installed."""


@pytest.mark.parametrize("name", coterie.__all__)
def test_each_public_name_is_there(name: str) -> None:
    assert getattr(coterie, name) is not None


def test_an_unknown_name_is_said_to_be_unknown() -> None:
    with pytest.raises(AttributeError, match="'Customer'"):
        _ = coterie.Customer


def test_type_checkers_see_the_names_that_programs_get() -> None:
    tree = ast.parse(Path(inspect.getfile(coterie)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname or alias.name
        for node in ast.walk(block)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert seen == set(coterie.__all__), (
        "coterie/__init__.py imports for type checkers what __all__ does not name, or lacks it"
    )


def test_every_error_of_ours_is_a_coterie_error() -> None:
    strangers = []
    for package in (actors, coterie, placement, spark_bridge):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name.endswith("__main__") or found.name in NEEDS_RAYDP:
                continue
            module = importlib.import_module(found.name)
            strangers += [
                f"{found.name}.{name}"
                for name, value in vars(module).items()
                if inspect.isclass(value)
                and issubclass(value, Exception)
                and value.__module__ == found.name
                and not issubclass(value, CoterieError)
            ]
    assert strangers == [], "derive these from CoterieError"
