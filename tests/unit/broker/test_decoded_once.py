"""A broker decodes the frame of a group request once, or not at all: what judges and cuts it gets the message."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from actors.broker.handlers import group_requests

FOLDER = Path(group_requests.__file__).parent
DECODERS = {"decode", "decode_request_header", "error_answer"}


def calls(path: Path) -> list[tuple[str, str]]:
    """The decoders of frames that a module calls, each with the function that calls it."""
    return sorted(
        (function.name, called)
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and (called := getattr(node.func, "attr", getattr(node.func, "id", ""))) in DECODERS
        and not (called == "decode" and not node.args)  # text
    )


def test_the_guard_decodes_what_it_has_cut_and_what_it_refuses_each_once() -> None:
    assert calls(FOLDER / "guard.py") == [
        ("_is_cut", "decode"),
        ("_is_cut", "decode_request_header"),
        ("_refuse", "decode_request_header"),
        ("_refuse", "error_answer"),
    ]


@pytest.mark.parametrize(
    "path", [path for path in FOLDER.glob("*.py") if path.name != "guard.py"], ids=lambda p: p.stem
)
def test_nothing_else_decodes_a_frame(path: Path) -> None:
    assert calls(path) == []
