"""README and docs are right: links lead somewhere, Python compiles, commands, options and files exist.

The effects of examples are not tested here: that needs a cluster. Generated pages are in test_docs_are_current.py.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import click
import pytest

from actors.cli.main import cli
from actors.settings import SETTINGS, TOPIC_SETTINGS

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`+[^`]*`+")
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_INLINE_COMMAND = re.compile(r"`(coterie(?: [^`]+)?)`")
_PLACEHOLDER = re.compile(r"[A-Z.…]+")
_OPERATORS = frozenset("|;&()<>")

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def blocks(page: Path, *languages: str) -> list[str]:
    return [body for language, body in _FENCE.findall(page.read_text()) if language in languages]


def anchors(page: Path) -> set[str]:
    """The names that headings of a page have as link targets, as code hosts make them."""
    headings = re.findall(r"^#+ (.*)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pages
def test_relative_links_lead_somewhere(page: Path) -> None:
    text = _CODE.sub("", _FENCE.sub("", page.read_text()))
    for target in _LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = unquote(target).partition("#")
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page.name} links to {target}, which is not there"
        assert not anchor or anchor in anchors(linked), f"{page.name} links to {target}, which has no such heading"


@pages
def test_what_is_mapped_and_written_as_parquet_keeps_its_headers(page: Path) -> None:
    """Ray Data's default, NumPy, has no type for them: Parquet would have them pickled."""
    for code in blocks(page, "python"):
        for line in code.splitlines():
            assert "batch_format=" in line or not ("map_batches" in line and "write_parquet" in line), line


@pages
def test_python_blocks_compile(page: Path) -> None:
    for number, code in enumerate(blocks(page, "python")):
        compile(code, f"{page.name}, block {number}", "exec")


def commands(page: Path) -> list[list[str]]:
    """Every `coterie ...` line of the page's shell blocks and inline code, as words."""
    text = page.read_text()
    lines = [line for body in blocks(page, "sh") for line in body.replace("\\\n", " ").splitlines()]
    lines += [
        line.removeprefix("$ ") for body in blocks(page, "text") for line in body.splitlines() if line[:2] == "$ "
    ]
    lines += _INLINE_COMMAND.findall(_FENCE.sub("", text))
    found = []
    for line in lines:
        words: list[str] = []
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        for word in [*lexer, "|"]:
            if not _OPERATORS.issuperset(word):
                words.append(word)
                continue
            if words[:1] == ["coterie"]:
                found.append(words[1:])
            words = []
    return found


def problem(words: list[str]) -> str | None:
    """The fault of `coterie WORDS` as a command line; None if it has none. Running text may leave out arguments."""
    command: click.Command = cli
    context = click.Context(cli, info_name="coterie")
    words = list(words)
    while isinstance(command, click.Group):
        if not words or _PLACEHOLDER.fullmatch(words[0]):
            return None
        name = words.pop(0)
        if name.startswith("-"):
            return None if name in _options(command, context) else f"{command.name} has no option {name}"
        found = command.get_command(context, name)
        if found is None:
            return f"{command.name} has no command {name}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    options = _options(command, context)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if not name.startswith("-") or _is_number(name):
            continue
        if name not in options:
            return f"{command.name} has no option {name}"
        option = options[name]
        if option.is_flag or option.count or not (equals or words):
            continue
        given = value if equals else words.pop(0)
        if not _PLACEHOLDER.fullmatch(given.split("=")[0]) and "=" not in given:
            try:
                option.type.convert(given, option, context)
            except click.UsageError as error:
                return f"{name} {given}: {error.format_message()}"
    return None


def _options(command: click.Command, context: click.Context) -> dict[str, click.Option]:
    options = [parameter for parameter in command.get_params(context) if isinstance(parameter, click.Option)]
    return {name: option for option in options for name in (*option.opts, *option.secondary_opts)}


def _is_number(word: str) -> bool:
    return word.removeprefix("-").isdigit()


@pages
def test_commands_and_their_options_exist(page: Path) -> None:
    problems = {" ".join(words): wrong for words in commands(page) if (wrong := problem(words))}
    assert not problems, f"{page.name} shows commands that do not exist"


@pages
def test_named_files_of_the_source_exist(page: Path) -> None:
    """A path may be shortened to its end, as `broker/server.py`; `<name>` and `*` stand for anything."""
    named = {word for word in re.findall(r"`([^`\s]+)`", _FENCE.sub("", page.read_text())) if _FILE.search(word)}
    missing = sorted(word for word in named if not _is_there(word))
    assert not missing, f"{page.name} names files that are not there"


_FILE = re.compile(r"^(?:actors|spark_bridge|placement|tests|tools|docs|examples|benchmarks)/|\.py$")
_OF_OTHERS = frozenset({"shipping.py", "archive.py", "setup_worker.py"})
"""Files that README asks its reader to write, and a file of Ray's."""


def _is_there(word: str) -> bool:
    pattern = re.sub(r"<\w+>", "*", word.rstrip("/"))
    return word in _OF_OTHERS or any(path.match(pattern) for path in _paths()) or bool(list(ROOT.glob(pattern)))


@cache
def _paths() -> list[Path]:
    packages = ("actors", "spark_bridge", "placement", "tests", "tools", "examples", "benchmarks")
    return [path for package in packages for path in (ROOT / package).rglob("*.py")]


def test_the_rooms_are_the_linters_floors() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract for contract in contracts if contract["id"] == "house")["layers"]
    floors = {room: len(layers) - 1 - at for at, layer in enumerate(layers) for room in layer.split(" | ")}
    figure = (ROOT / "docs" / "architecture.md").read_text().partition("## Rooms")[2].partition("Imports run")[0]
    shown = {
        path.removesuffix(".py").strip("/").replace("/", "."): int(floor)
        for path, floor in re.findall(r"^(\S+) .* (\d+)$", figure, re.MULTILINE)
    }
    assert shown == floors, "the figure of docs/architecture.md and the contract `house` of pyproject.toml differ"


@pytest.mark.parametrize(
    "line",
    ["coterie fly", "coterie topics fly", "coterie up --wings 2", "coterie up --brokers two", "coterie --wings"],
)
def test_a_command_that_does_not_exist_is_noticed(line: str) -> None:
    assert problem(shlex.split(line)[1:]) is not None


def test_the_readme_shows_commands_and_python() -> None:
    assert len(commands(ROOT / "README.md")) > 10
    assert len(blocks(ROOT / "README.md", "python")) >= 3


@pages
def test_named_settings_exist(page: Path) -> None:
    given = [word for words in commands(page) for option, word in pairwise(words) if option == "--config"]
    names = {word.partition("=")[0] for word in given} - {"KEY"}
    unknown = names - SETTINGS.keys() - TOPIC_SETTINGS.keys()
    assert not unknown, f"{page.name} shows settings that are in no table of actors/settings"


def test_settings_said_to_have_no_effect_are_those_that_nothing_reads() -> None:
    section = (ROOT / "docs" / "not-yet.md").read_text().partition("## Settings without effect")[2]
    names = re.findall(r"`([a-z.*]+)`", section)
    known = {key for name in names for key in _matching(name)}
    assert len(known) >= len(names) >= 3
    read = {key: where for key in known if (where := _readers(key))}
    assert not read, "these have an effect now: take them from the list in docs/not-yet.md"
    not_listed = {key for key in [*SETTINGS, *TOPIC_SETTINGS] if key not in known and not _readers(key)}
    assert not not_listed, "nothing reads these: read them where they have an effect, or list them in docs/not-yet.md"


def _matching(name: str) -> list[str]:
    prefix = name.removesuffix("*")
    if prefix != name:
        return [key for key in SETTINGS if key.startswith(prefix)]
    assert name in SETTINGS or name in TOPIC_SETTINGS, f"there is no setting {name}"
    return [name]


def _readers(key: str) -> list[str]:
    """Files that use a setting, or a topic setting that takes its value from it.

    By its name, or as an attribute of a config made from it.
    """
    heirs = [name for name, entry in TOPIC_SETTINGS.items() if key in (source.name for source in entry.inherits)]
    uses = [f'"{key}"', *(f".{name.replace('.', '_')}" for name in (key, *heirs))]
    return sorted({file for use in uses for file in _uses().get(use, ())})


_USE = re.compile(r'("[^"\s]+")|\b_?(?:config|self)(?=(\.\w+))')


@cache
def _uses() -> dict[str, set[str]]:
    """The files that have each word in quotes, and each attribute of a config, as `.name`."""
    found: dict[str, set[str]] = {}
    for file, text in _sources().items():
        for quoted, attribute in set(_USE.findall(text)):
            found.setdefault(quoted or attribute, set()).add(file)
    return found


READING = ("describe.py", "listeners.py", "logins.py")
"""Modules beside the tables that use settings."""


@cache
def _sources() -> dict[str, str]:
    """The product's code without its tables of settings, and without modules that only check their values."""
    folder = ROOT / "actors" / "settings"
    paths = [path for path in (ROOT / "actors").rglob("*.py") if path.parent != folder or path.name in READING]
    return {str(path.relative_to(ROOT)): re.sub(r'_key\(\s*"[^"]+"', "", path.read_text()) for path in paths}
