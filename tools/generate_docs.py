"""Writes the pages of docs/ that are made from tables of the code: `python -m tools.generate_docs`.

settings.md comes from actors.settings, protocol.md from the registry of request handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from actors.broker.handlers.api_versions import ADVERTISED
from actors.broker.handlers.registry import HANDLERS, SHARD_APIS
from actors.settings import SECTION_OF, SECTIONS, SETTINGS, TOPIC_SETTINGS, Setting
from actors.settings.kinds import MAX_INT, MAX_LONG
from actors.wire.messages import api_name

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
_PROTOCOL = """\
# Protocol

Generated from the registry in `actors/handlers` by `python -m tools.generate_docs`; do not edit.

Coterie's brokers speak Kafka's protocol. This is what they serve; ApiVersions says the same to every client, which
then picks the highest version both sides know. A request of another API or version closes its connection, with a line
in the broker's log; only ApiVersions itself is answered with UNSUPPORTED_VERSION (35) and the ranges, as KIP-511 asks.
"""
_PROTOCOL_NOTES = """\
## What is special

- **Answered by** *broker* means the process that the client is connected to; *partition actor* means that the broker
  relays the request to the process that hosts the group's `__consumer_offsets` partition. ListGroups, DescribeGroups,
  DeleteGroups and, from version 8 on, OffsetFetch are about several groups: the broker splits such a request and
  merges the answers.
- **Produce** is advertised from version 0 but served from version 3, the first with today's record batches. Older
  librdkafka takes a higher first version as a sign that the broker cannot take lz4, gzip or snappy.
- **Fetch** grants no incremental sessions (KIP-227): every answer has session id 0 and clients send full requests.
- **InitProducerId** serves idempotent producers. A `transactional.id` is refused with
  TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53), and so is a transactional Produce request: there are no transactions.
- **ConsumerGroupHeartbeat** and the other requests of KIP-848 are not served. Consumers that speak both protocols
  see that in ApiVersions; set `group.protocol=classic`.
- **acks=0**: a failed Produce closes the connection, the only sign such a producer understands.
- Responses leave a connection in the order of its requests, as in Apache Kafka. At most 512 requests of one
  connection are open; the broker reads on when one is answered.
- A record batch is kept as it was produced, whatever its compression (none, gzip, snappy, lz4 or zstd), unless the
  topic's `compression.type` names a codec.
"""


def protocol_page() -> str:
    """The whole page, as Markdown."""
    rows = []
    for key, (first, last) in sorted(ADVERTISED.items()):
        served_from = HANDLERS[key].served_from if key in HANDLERS else first
        served = f"{served_from} to {last}" if served_from < last else str(last)
        advertised = "the same" if served_from == first else f"{first} to {last}"
        owner = "partition actor" if key in SHARD_APIS else "broker"
        rows.append((api_name(key), str(key), served, advertised, owner))
    head = ("API", "key", "versions served", "advertised", "answered by")
    return "\n".join([_PROTOCOL, "## APIs and versions\n", _table(head, rows), _PROTOCOL_NOTES])


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


PAGES: dict[str, Callable[[], str]] = {"settings.md": settings_page, "protocol.md": protocol_page}


def main() -> None:
    """Write all pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


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
