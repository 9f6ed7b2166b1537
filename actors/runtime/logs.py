"""The form of our processes' logs: a line for each event, with fields that name its subject.

A process has fields of its own, such as its cluster and its broker. A call adds those of its line:

    log.warning("shard pid %d has died", pid, extra=about(topic=topic, partition=partition, pid=pid))

As text a line ends with its fields in brackets; in JSON they are members of the line's object. In both, what clients
have named is escaped here, wherever it stands, so that no call has to think of it. Each field's name is said once, in
`Fields`. Secrets are no fields: these are only texts and numbers, and nothing here turns any other object into text.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypedDict, Unpack

from actors.runtime.escaping import escaped, escaped_json, indented

TEXT: Final = "text"
JSON: Final = "json"

AUDIT: Final = "coterie.audit"
"""The logger of what clients are denied, which has files of its own."""
OURS: Final = ("actors", "coterie")
"""The loggers of our own code, that one among them."""
WRITTEN: Final = (*OURS, "asyncio")
"""The loggers that a process writes to its log, with all below them."""

_FIELDS: Final = "fields"
_LINE: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Fields(TypedDict, total=False):
    """The subject of a line."""

    cluster: str
    """The name of the cluster."""
    role: str
    """The kind of process: controller, broker, shard, monitor, member."""
    broker: int
    topic: str
    partition: int
    """Of `topic`."""
    epoch: int
    group: str
    generation: int
    member: str
    pid: int
    """Of another process, such as a shard that a broker hosts."""
    peer: str
    """The other end of a connection: a client's address, or `broker 2`."""


@dataclass(frozen=True, slots=True)
class LogPlace:
    """The folder of the logs of a cluster's processes, and their form: text or JSON."""

    folder: str
    cluster: str
    log_format: str = TEXT


def about(**fields: Unpack[Fields]) -> dict[str, Fields]:
    """The `extra` of a log call whose line is about these."""
    return {_FIELDS: fields}


def at(topic: str, partition: int, /, **more: Unpack[Fields]) -> dict[str, Fields]:
    """The `extra` of a log call whose line is about a partition."""
    return {_FIELDS: Fields(topic=topic, partition=partition) | more}


def formatter(log_format: str, own: Fields) -> logging.Formatter:
    """The formatter of the lines, `TEXT` or `JSON`.

    Each has the fields of its process, `own`, before those of its call.
    """
    return JsonLines(own) if log_format == JSON else TextLines(own)


class TextLines(logging.Formatter):
    """Lines for people: `2026-11-24 10:18:59,123 INFO actors.x: what was [cluster=default broker=0 partition=3]`.

    A line break in what is said is an escape. Lines of a traceback are indented: nothing in them looks like a line.
    """

    def __init__(self, own: Fields) -> None:
        super().__init__(_LINE)
        self._own = own

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (the name is of `logging`)
        """The line without a traceback, which `logging` puts below it."""
        shown = " ".join(f"{name}={_shown(value)}" for name, value in _fields(self._own, record).items())
        line = escaped(super().formatMessage(record))
        return f"{line} [{shown}]" if shown else line

    def format(self, record: logging.LogRecord) -> str:
        """The line, with its traceback below."""
        others, record.exc_text = record.exc_text, None  # `logging` shares a traceback's text between handlers
        try:
            return super().format(record)
        finally:
            record.exc_text = others

    def formatException(  # noqa: N802
        self, ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
    ) -> str:
        """The traceback of an error, whose text may be a client's."""
        return indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802
        """A stack that a call has asked for."""
        return indented(stack_info)


class JsonLines(logging.Formatter):
    """One JSON object a line: ts (ISO 8601, UTC, ms), level, logger, msg, the fields, and exc if there is a traceback.

    All but printable ASCII is escaped: a line holds no line break, whatever a client has sent.
    """

    def __init__(self, own: Fields) -> None:
        super().__init__()
        self._own = own

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        seconds, ms = divmod(int(record.created * 1000), 1000)
        line: dict[str, Any] = {
            "ts": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{ms:03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "msg": record.getMessage(),
            **_fields(self._own, record),
        }
        if record.exc_info:
            line["exc"] = self.formatException(record.exc_info)
        return escaped_json(line)


class CapturedLines(logging.Formatter):
    """`actors.x: what was`, for what keeps a line's time and level beside it.

    A message of our own code is one line. A handler's message is its user's, and may have several.
    """

    def __init__(self) -> None:
        super().__init__("%(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        """The line without a traceback."""
        line = super().formatMessage(record)
        return escaped(line) if record.name.partition(".")[0] in OURS else line


def _fields(own: Fields, record: logging.LogRecord) -> dict[str, str | int]:
    return {**own, **getattr(record, _FIELDS, {})}


def _shown(value: str | int) -> str:
    text = str(value)
    plain = text.isprintable() and text and not set(text) & set(' "[]=')
    return text if plain else escaped_json(text)
