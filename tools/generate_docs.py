"""Writes the pages of docs/ that are made from tables of the code: `python -m tools.generate_docs`.

settings.md comes from actors.settings, protocol.md from the registry of request handlers, metrics.md from the Monitor's
table of metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path
from textwrap import fill

from actors.broker.handlers.registry import APIS, ENTRIES_LIMIT, SOCKET_LIMIT, Api, Runs
from actors.monitor import metric_table
from actors.settings import (
    SECTION_OF,
    SECTIONS,
    SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    accepted_settings,
    accepted_topic_settings,
)
from actors.settings.kinds import MAX_INT, MAX_LONG
from actors.wire.api_keys import ApiKey
from tools import protocol_words
from tools.kafka_versions import LEFT_OUT

DOCS = Path(__file__).resolve().parents[1] / "docs"
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
_ACCEPTED = """\
## Accepted, without effect

All other keys of Apache Kafka 4.4 are taken, so that its files and tools work as they are. A value must be of Kafka's
type and range; DescribeConfigs shows it, or Kafka's default. Passwords are neither kept nor shown; to set one while
brokers run is refused with INVALID_CONFIG, because Kafka would keep it in its metadata log, in clear text. `coterie up`
names the keys it was given, and a broker's log names each that is changed while it runs. None has an effect: those of
security protect nothing. A broker's identity and its data directory (`broker.id`, `node.id`, `log.dirs`,
`process.roles`) are not read from these keys, and DescribeConfigs shows them as they are. Keys with
`listener.name.NAME.` before them, and those that begin with `metrics.context.`, `rlmm.config.` or `rsm.config.`, are
taken as well. A key that Kafka 4.4 does not know is refused.

Kafka's brokers speak to each other by a listener, which `inter.broker.listener.name`,
`security.inter.broker.protocol` and `sasl.mechanism.inter.broker.protocol` choose. Here they have
[links of their own](security.md#links-between-the-clusters-processes), which these keys do not change.
"""
_METRICS = """\
# Metrics

Generated from the table in `actors/monitor/metric_table.py` by `python -m tools.generate_docs`; do not edit.

A cluster's Monitor exposes these metrics at `/metrics`; [Monitoring](monitoring.md) says how to scrape them and what to
look at. Metrics that Kafka has, too, have the names that the usual rules of the JMX exporter give them. Kafka has an
endpoint for each broker; here the label `broker` takes its place. Lag and partitions have kafka_exporter's names and
labels. Names that begin with `coterie_` are Coterie's own. A value that is not known is left out; it is never shown as
0.
"""


def protocol_page() -> str:
    """The whole page, as Markdown."""
    rows = [_api_row(api) for api in APIS.values()]
    tools = _table(("tool", "what differs from Kafka", "why"), protocol_words.TOOL_DIFFERENCES)
    head = ("API", "key", "versions served", "advertised", "answered by", "rights")
    return "\n".join(
        [
            protocol_words.PROTOCOL,
            "## APIs and versions\n",
            _table(head, rows),
            protocol_words.PROTOCOL_LEFT_OUT,
            _table(("API", "key", "versions", "why"), list(map(_left_out_row, LEFT_OUT))),
            protocol_words.PROTOCOL_NOTES + _limits(),
            protocol_words.PROTOCOL_BATCHES,
            _table(("refused here", "error", "why"), protocol_words.BATCHES_REFUSED),
            protocol_words.PROTOCOL_BATCHES_NOTES,
            protocol_words.PROTOCOL_TOOLS,
            tools,
            protocol_words.PROTOCOL_TOOLS_NOTES,
            protocol_words.PROTOCOL_RELEASES,
        ]
    )


def _api_row(api: Api) -> tuple[str, ...]:
    served, advertised = _range(api.served_from, api.last), "the same"
    if api.runs is Runs.NOWHERE:
        served, advertised = "none", _range(api.first, api.last)
    elif api.served_from != api.first:
        advertised = _range(api.first, api.last)
    rights = ", ".join(map(str, api.rights)) or "none"
    return api.key.label, str(int(api.key)), served, advertised, api.runs.value, rights


def _left_out_row(key: ApiKey) -> tuple[str, ...]:
    first, last, why = LEFT_OUT[key]
    return key.label, str(int(key)), _range(first, last), why


def _range(first: int, last: int) -> str:
    return f"{first} to {last}" if first < last else str(last)


def _limits() -> str:
    special: dict[str, list[str]] = {}
    for api in APIS.values():
        if api.limit != SOCKET_LIMIT:
            special.setdefault(api.limit, []).append(api.key.label)
    text = f"- **Size.** A request may be as long as {_code(SOCKET_LIMIT)} says"
    for limit, names in special.items():
        text += f", one of {', '.join(names[:-1])} or {names[-1]} as {_code(limit)} says"
    text += f". Others may have as many entries in all their lists together as {_code(ENTRIES_LIMIT)} says"
    return fill(f"{text}. What is larger closes its connection.", 120, subsequent_indent="  ") + "\n"


def settings_page() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRO]
    for section, text in SECTIONS.items():
        rows = [
            _broker_row(each) for name, each in SETTINGS.items() if SECTION_OF[name] == section and not each.internal
        ]
        parts += [f"## {section}\n\n{text}\n", _table(("setting", "default", "allowed", "what it does"), rows)]
    rows = [
        (_code(name), _default(entry), _allowed(entry), _inherits(entry.inherits), entry.doc)
        for name, entry in TOPIC_SETTINGS.items()
        if not entry.internal
    ]
    parts += [_TOPICS, _table(("setting", "default", "allowed", "inherits from", "what it does"), rows)]
    parts += [_ACCEPTED, f"Of topics: {_names(accepted_topic_settings())}.\n"]
    return "\n".join([*parts, "Of brokers:\n", _by_first_word(accepted_settings())])


def metrics_page() -> str:
    """The text of metrics.md."""
    parts = [_METRICS]
    for section in metric_table.SECTIONS:
        found = [each for each in metric_table.METRICS if each.section == section]
        if found:
            rows = [(_code(each.name), _names(each.labels) or "-", each.kind, each.doc) for each in found]
            parts += [f"## {section}\n", _table(("metric", "labels", "kind", "what it says"), rows)]
    return "\n".join(parts)


PAGES: dict[str, Callable[[], str]] = {
    "settings.md": settings_page,
    "protocol.md": protocol_page,
    "metrics.md": metrics_page,
}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


def _broker_row(setting: Setting) -> tuple[str, ...]:
    dynamic = " *dynamic*" if setting.dynamic else ""
    return _code(setting.name) + dynamic, _default(setting), _allowed(setting), setting.doc


def _by_first_word(names: Iterable[str]) -> str:
    groups = groupby(sorted(names), key=lambda name: name.partition(".")[0])
    return "".join(f"- {_names(group)}\n" for _, group in groups)


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(_code, sorted(names)))


def _inherits(sources: Iterable[object]) -> str:
    return ", ".join(_code(getattr(source, "name", "")) for source in sources)


def _default(setting: Setting) -> str:
    text = setting.format(setting.default)
    return "unset" if text is None else _code(_short(text))


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
