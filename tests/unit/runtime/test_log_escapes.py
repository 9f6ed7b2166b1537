"""Names of clients in logs: whatever they hold and wherever they stand, they make no line and move no cursor."""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import actors
from actors.coordinator_kinds.groups.rebalances import log_rebalances
from actors.links.rebalances import Rebalances
from actors.links.views import ClassicRebalanceView
from actors.members.logs.capture import RingHandler
from actors.members.logs.ring import Ring
from actors.runtime.escaping import escaped, escaped_json
from actors.runtime.logs import JSON, TEXT, about, formatter

FORGED = "2026-11-24 10:18:59,123 INFO coterie.audit: allowed 'User:eve'"
BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
EVIL = "".join(f"{each}{FORGED}" for each in BREAKS) + "\x1b[2J\x9b31m\x00\x7f\u202e\u2066\u200f\ufeff\udc1b\U000e0001"
BEGINS = re.compile(r"\d{4}-\d\d-\d\d ")


def raised(error: BaseException) -> logging.LogRecord:
    try:
        try:
            raise KeyError(EVIL)
        except KeyError as cause:
            error.add_note(EVIL)
            raise error from cause
    except BaseException:
        return logging.LogRecord("actors.x", 40, "x.py", 1, "it failed", (), sys.exc_info())


def said(text: str, *arguments: object, **fields: str) -> logging.LogRecord:
    record = logging.LogRecord("actors.x", 20, "x.py", 1, text, arguments, None)
    record.__dict__.update(about(**fields))  # type: ignore[arg-type]
    return record


def with_stack() -> logging.LogRecord:
    record = said("here")
    record.stack_info = f"Stack (most recent call last):\n  {EVIL}"
    return record


PLACES: dict[str, Callable[[], logging.LogRecord]] = {
    "argument": lambda: said("group %s has gone", EVIL),
    "text": lambda: said(f"group {EVIL} has gone"),
    "field": lambda: said("gone", group=EVIL, member=EVIL, peer=EVIL, topic=EVIL),
    "error": lambda: raised(ValueError(EVIL)),
    "error in an argument": lambda: said("%s", ValueError(EVIL)),
    "stack": with_stack,
}


@pytest.mark.parametrize("log_format", [TEXT, JSON])
@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_a_client_names_makes_a_line_or_moves_a_cursor(place: str, log_format: str) -> None:
    text = formatter(log_format, {"cluster": "default"}).format(PLACES[place]())
    assert [c for c in text if not (c.isprintable() or c == "\n")] == []
    first, *below = text.split("\n")
    assert text.splitlines() == [first, *below]
    assert not any(BEGINS.match(line) for line in below)
    assert log_format == TEXT or not below
    if log_format == JSON and place in ("argument", "text"):
        assert json.loads(text)["msg"] == f"group {EVIL} has gone"


def test_the_reason_of_a_join_forged_a_line_of_the_audit_log() -> None:
    """KIP-800 lets a member say why it joins, and a shard logs why a group was rebalanced."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.extend(formatter(TEXT, {}).format(record).splitlines())

    log, kept = logging.getLogger("actors.coordinator_kinds.groups.rebalances"), Kept()
    log.addHandler(kept)
    level = log.level
    log.setLevel(logging.INFO)
    try:
        over = ClassicRebalanceView("g\x1b[2J", 0, 7, f"m-1 joined\n{FORGED}", "m-1\u2028")
        log_rebalances(Rebalances((over,), 0, ()), lambda **more: about(**more))
    finally:
        log.removeHandler(kept)
        log.setLevel(level)
    (line,) = lines
    assert BEGINS.match(line)
    assert r"m-1 joined\n2026" in line


def test_a_traceback_that_another_handler_has_made_is_escaped_all_the_same() -> None:
    record = raised(ValueError(EVIL))
    other = logging.Formatter().format(record)
    text = formatter(TEXT, {}).format(record)
    assert not any(BEGINS.match(line) for line in text.splitlines()[1:])
    assert logging.Formatter().format(record) == other


def test_what_our_code_says_in_a_members_log_is_one_line_and_a_handlers_own_may_be_several() -> None:
    ring = Ring(lambda: 0)
    handler = RingHandler(ring)
    handler.handle(said("group %s", f"g\n{FORGED}"))
    own = logging.LogRecord("app", 20, "x.py", 1, "two\nlines", (), None)
    handler.handle(own)
    assert [each.text for each in ring.read()] == [
        rf"actors.x: group g\n{FORGED}",
        "app: two",
        "lines",
    ]


def test_json_is_read_as_what_it_was() -> None:
    for ascii_only in (True, False):
        text = escaped_json([EVIL, "é😀"], ascii_only=ascii_only)
        assert json.loads(text) == [EVIL, "é😀"]
        assert text.isprintable()
    assert escaped("é😀 x", keep="") == "é😀 x"


MADE_BY_LOGGING = {"StreamHandler", "FileHandler", "RotatingFileHandler", "basicConfig"}


def test_every_handler_of_ours_writes_by_a_formatter_that_escapes() -> None:
    """No call site can forget: the processes that write logs are these, and all have their lines made in one place."""
    found: set[str] = set()
    for file in Path(actors.__file__ or "").parent.rglob("*.py"):
        tree = ast.parse(file.read_text())
        names = [
            getattr(node.func, "attr", getattr(node.func, "id", "")) for node in ast.walk(tree)
            if isinstance(node, ast.Call)
        ]  # fmt: skip
        handlers = sum(name in MADE_BY_LOGGING - {"basicConfig"} for name in names)
        if MADE_BY_LOGGING & set(names) and file.parent.name != "cli":
            found.add(file.name)
            assert names.count("formatter") == handlers, file
    assert found == {"process.py", "consumer_actor.py", "supervisor_actor.py", "child.py"}
