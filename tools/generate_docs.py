"""Writes docs/settings.md from the tables of actors.settings: `python -m tools.generate_docs`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from actors.settings import SECTION_OF, SECTIONS, SETTINGS, TOPIC_SETTINGS, Setting
from actors.settings.kinds import MAX_INT, MAX_LONG

TARGET = Path(__file__).resolve().parents[1] / "docs" / "settings.md"
_INTRO = """\
# Settings

Generated from the tables in `actors/settings` by `python -m tools.generate_docs`; do not edit.

Broker settings are given to `coterie up` with `--config KEY=VALUE` or in a properties file with `--config-file`.
Settings marked *dynamic* can also be changed while the cluster runs, with AlterConfigs. Times are milliseconds and
sizes bytes unless the name says otherwise.
"""
_TOPICS = """\
## Topic settings

Given when a topic is created (`coterie topics create --config KEY=VALUE`) or changed later (`coterie topics alter`).
A topic without a value of its own takes that of the broker setting named here.
"""


def settings_page() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRO]
    for section, text in SECTIONS.items():
        rows = [_broker_row(each) for name, each in SETTINGS.items() if SECTION_OF[name] == section]
        parts += [f"## {section}\n\n{text}\n", _table(("setting", "default", "allowed", "what it does"), rows)]
    rows = [
        (_code(name), _default(entry.setting), _allowed(entry.setting), _inherits(entry.inherits), entry.setting.doc)
        for name, entry in TOPIC_SETTINGS.items()
    ]
    parts += [_TOPICS, _table(("setting", "default", "allowed", "inherits from", "what it does"), rows)]
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    TARGET.write_text(settings_page())


def _broker_row(setting: Setting) -> tuple[str, ...]:
    dynamic = " *dynamic*" if setting.dynamic else ""
    return _code(setting.name) + dynamic, _default(setting), _allowed(setting), setting.doc


def _inherits(sources: Iterable[object]) -> str:
    return ", ".join(_code(getattr(source, "name", "")) for source in sources)


def _default(setting: Setting) -> str:
    text = setting.format(setting.default)
    return _code(_short(text)) if text else "unset"


def _allowed(setting: Setting) -> str:
    return _short(setting.allowed)


def _short(text: str) -> str:
    for number, name in ((MAX_LONG, "2^63-1"), (MAX_INT, "2^31-1"), (MAX_LONG + 1, "2^63"), (MAX_INT + 1, "2^31")):
        text = text.replace(str(number), name)
    return text


def _code(text: str) -> str:
    return f"`{text}`"


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


if __name__ == "__main__":
    main()
