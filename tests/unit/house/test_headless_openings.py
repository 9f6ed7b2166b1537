"""Docstrings and comments are sentences with a subject: none opens with "What", "Who" or "How" and never gets to one.

A question may open so. A clause may open with "When" or "Where" if a main clause follows it after a comma.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PLACES = ("actors", "benchmarks", "coterie", "examples", "placement", "spark_bridge", "tests", "tools")
"""All code that people read."""

_HEADLESS = re.compile(
    r"(?:(?:as|at|by|for|from|in|of|on|that|to|up to|with) )?(?:what|who|whom|whose|which|whether|how|why)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"(?:when|where)\b", re.IGNORECASE)
_THEN = re.compile(
    r"[^,:;]*, (?!(?:and|as|behind|beside|by|even|if|in|once|or|unless|which|with|because|for|until)\b|\d)",
    re.IGNORECASE,
)
"""A clause and a comma after which a main clause may come."""
_ASIDE = re.compile(r"\([^()]*\)")
_SENTENCE_ENDS = re.compile(r"(?<=[.!?])[\"')\]*]*\s+(?=[\"'(\[`*]*[A-Z])")
_ITEM = re.compile(r"^\s*(?:[-*]|\d+\.)\s+")
_QUOTES = "\"'(`*[ "


def paragraphs(text: str) -> Iterator[str]:
    """The text's paragraphs and list items, each on one line."""
    lines: list[str] = []
    for line in text.splitlines():
        if lines and (not line.strip() or _ITEM.match(line)):
            yield " ".join(lines)
            lines = []
        if line.strip():
            lines.append(_ITEM.sub("", line, count=1).strip())
    if lines:
        yield " ".join(lines)


def headless(text: str) -> list[str]:
    """The sentences of a docstring or comment that open without a subject."""
    sentences = (each.strip() for paragraph in paragraphs(text) for each in _SENTENCE_ENDS.split(paragraph))
    return [each for each in sentences if not each.endswith("?") and _is_headless(each.lstrip(_QUOTES))]


def _is_headless(sentence: str) -> bool:
    if _CLAUSE.match(sentence):
        return not _THEN.match(_ASIDE.sub("", sentence))
    return _HEADLESS.match(sentence) is not None


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each docstring; a string below a name documents that name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each comment; comments on lines of their own that follow each other are one."""
    first, lines, alone = 0, list[str](), False
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        (line, column), was_alone = token.start, alone
        alone = not token.line[:column].strip()
        if lines and not (alone and was_alone and line == first + len(lines)):
            yield first, "\n".join(lines)
            lines = []
        first = line - len(lines)
        lines.append(token.string.lstrip("#:! "))
    if lines:
        yield first, "\n".join(lines)


def found(path: Path) -> Iterator[str]:
    source = path.read_text()
    for line, text in sorted([*docstrings(source), *comments(source)]):
        for sentence in headless(text):
            yield f"{path.relative_to(ROOT)}:{line}: {sentence}"


@pytest.mark.parametrize("place", PLACES)
def test_no_sentence_opens_without_a_subject(place: str) -> None:
    paths = sorted((ROOT / place).rglob("*.py"))
    assert paths, "no such place"
    assert [each for path in paths for each in found(path)] == []


@pytest.mark.parametrize(
    "text",
    [
        "What a broker knows.",
        "Who leads a partition. Pure rules.",
        "True if so. Whether it moved.",
        "How many there are; 0 if none.",
        "when it was used last",
        "Where the log ends.",
        "When it began, in ms since boot.",
        "Where it lies: a folder, or a link.",
        "Which topics there are.",
        "For how many seconds it waits.",
        "**What is durable.** A log.",
        "A list:\n\n- what is first\n- another",
        "A sentence that goes on over\na line. What it does not say.",
    ],
)
def test_a_headless_sentence_is_found(text: str) -> None:
    assert len(headless(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The topics of a broker.",
        "What is it?",
        "When a broker dies, another one leads.",
        "Where nobody has raised it, a process may have 1024.",
        "Somebody says\nwhat it is.",
        "Whatever comes is taken.",
    ],
)
def test_a_sentence_with_a_subject_and_a_question_are_not(text: str) -> None:
    assert headless(text) == []


def test_docstrings_of_names_and_comments_over_lines_are_read() -> None:
    source = 'x = 1\n"""What x is."""\n# A comment goes on\n# here. Who reads it.\ny = 2  # how many\n'
    assert [*docstrings(source)] == [(2, "What x is.")]
    assert [*comments(source)] == [(3, "A comment goes on\nhere. Who reads it."), (5, "how many")]
