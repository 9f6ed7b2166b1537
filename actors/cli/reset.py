"""The plans of `groups reset-offsets`: which offset each partition gets. Pure; reset_offsets.py asks the brokers."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from actors.cli.errors import CliError
from actors.settings import durations

if TYPE_CHECKING:
    from actors.client import TopicPartition


@dataclass(frozen=True, slots=True)
class Log:
    """The offsets of a partition's records: from `earliest` on, up to but not including `latest`."""

    earliest: int
    latest: int


@dataclass(slots=True)
class Plan:
    """The offsets to commit, and a warning for each that is not the one that was asked for."""

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, partition: TopicPartition, wanted: int, log: Log) -> None:
        """Plan to commit `wanted`, or the nearest offset of the log, with a warning."""
        offset = min(max(wanted, log.earliest), log.latest)
        if offset != wanted:
            name = f"{partition[0]}-{partition[1]}"
            self.warnings.append(f"{name} has offsets {log.earliest} to {log.latest}: {offset} instead of {wanted}")
        self.offsets[partition] = offset


def to_earliest(logs: Mapping[TopicPartition, Log]) -> Plan:
    """Read everything that the logs still have."""
    return Plan({partition: log.earliest for partition, log in logs.items()})


def to_latest(logs: Mapping[TopicPartition, Log]) -> Plan:
    """Read only what is written from now on."""
    return Plan({partition: log.latest for partition, log in logs.items()})


def to_offset(logs: Mapping[TopicPartition, Log], offset: int) -> Plan:
    """The same offset in every partition."""
    return _each(logs, lambda _: offset)


def shift_by(logs: Mapping[TopicPartition, Log], committed: Mapping[TopicPartition, int], count: int) -> Plan:
    """`count` records on from the committed offset, or back if negative. Raises CliError if there is none."""
    missing = sorted(f"{topic}-{number}" for topic, number in logs.keys() - committed.keys())
    if missing:
        raise CliError(f"nothing is committed for {', '.join(missing)}: there is no offset to shift")
    return _each(logs, lambda partition: committed[partition] + count)


def to_current(logs: Mapping[TopicPartition, Log], committed: Mapping[TopicPartition, int]) -> Plan:
    """The committed offset, or the end of the log where there is none."""
    return _each(logs, lambda partition: committed.get(partition, logs[partition].latest))


def to_times(logs: Mapping[TopicPartition, Log], found: Mapping[TopicPartition, int]) -> Plan:
    """The first record at or after a time: `found` by the brokers, or the end of the log where there is none."""
    return _each(logs, lambda partition: found.get(partition, logs[partition].latest))


def to_given(logs: Mapping[TopicPartition, Log], given: Mapping[TopicPartition, int]) -> Plan:
    """Offsets from a file. Raises CliError if it names a partition that does not exist."""
    unknown = sorted(f"{topic}-{number}" for topic, number in given.keys() - logs.keys())
    if unknown:
        raise CliError(f"there is no partition {', '.join(unknown)}")
    return _each({partition: logs[partition] for partition in given}, lambda partition: given[partition])


def _each(logs: Mapping[TopicPartition, Log], wanted: Callable[[TopicPartition], int]) -> Plan:
    plan = Plan()
    for partition, log in logs.items():
        plan.add(partition, wanted(partition), log)
    return plan


# --- values of options, and files ---


def parse_time(text: str) -> int:
    """Unix milliseconds of `YYYY-MM-DDTHH:MM:SS.sss`, UTC unless it names a zone. Raises CliError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CliError(
            f"{text!r} is not a time such as 2026-01-31T13:45:00.000 (UTC, or with a zone: +02:00)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration such as P7DT12H30M, or of "90m". Raises CliError."""
    try:
        return durations.parse_duration(text) // timedelta(milliseconds=1)
    except ValueError:
        raise CliError(f"{text!r} is not a duration such as P7D, PT12H, P1DT2H30M or 90m") from None


def parse_topics(texts: Iterable[str]) -> dict[str, list[int] | None]:
    """The partitions meant by `topic` or `topic:0,1,2`, by topic; None: all of them. Raises CliError."""
    wanted: dict[str, list[int] | None] = {}
    for text in texts:
        topic, separator, numbers = text.partition(":")
        if not separator:
            wanted[topic] = None
            continue
        parts = numbers.split(",")
        if not topic or not all(part.isascii() and part.isdigit() for part in parts):
            raise CliError(f"{text!r} is not TOPIC or TOPIC:PARTITION,PARTITION")
        before = wanted.get(topic, [])
        wanted[topic] = None if before is None else sorted({*before, *map(int, parts)})
    return wanted


def read_csv(text: str, groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """The offsets by group of lines `topic,partition,offset` or `group,topic,partition,offset`. Raises CliError.

    A line without a group belongs to the only one of `groups`.
    """
    from actors.client import TopicPartition

    known = list(groups)
    plans: dict[str, dict[TopicPartition, int]] = {}
    for number, fields in enumerate(csv.reader(io.StringIO(text)), 1):
        if not fields:
            continue
        group, rest = (fields[0], fields[1:]) if len(fields) == 4 else (known[0] if len(known) == 1 else "", fields)
        if group not in known or len(rest) != 3 or not all(part.strip().isdecimal() for part in rest[1:]):
            form = "topic,partition,offset" if len(known) == 1 else "group,topic,partition,offset with a group named"
            raise CliError(f"line {number} of the file is not {form}: {','.join(fields)!r}")
        plans.setdefault(group, {})[TopicPartition(rest[0], int(rest[1]))] = int(rest[2])
    return plans


def write_csv(plans: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    """The lines that `read_csv` reads. Each names its group if there are several."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in plans.items():
        for (topic, number), offset in sorted(offsets.items()):
            writer.writerow([group, topic, number, offset] if len(plans) > 1 else [topic, number, offset])
    return out.getvalue()
