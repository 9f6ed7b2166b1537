"""Moves of a group's offsets: a plan says which offset each partition gets. Pure; `lookups` asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from actors import OutsideError
from actors.client.records import TopicPartition
from actors.settings import durations


class PlanError(OutsideError):
    """There is no such plan, or what was written does not say one. The text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Log:
    """The offsets of a partition's records: from `earliest` on, up to but not including `latest`."""

    earliest: int
    latest: int

    def lag(self, committed: int) -> int:
        """The number of records that a group has not read that has committed this offset. Deleted records do not count.

        Below zero if it has committed beyond the end, as Kafka's tools show it.
        """
        return self.latest - max(committed, self.earliest)


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
    """`count` records on from the committed offset, or back if negative. Raises PlanError if there is none."""
    missing = sorted(f"{topic}-{number}" for topic, number in logs.keys() - committed.keys())
    if missing:
        raise PlanError(f"nothing is committed for {', '.join(missing)}: there is no offset to shift")
    return _each(logs, lambda partition: committed[partition] + count)


def to_current(logs: Mapping[TopicPartition, Log], committed: Mapping[TopicPartition, int]) -> Plan:
    """The committed offset, or the end of the log where there is none."""
    return _each(logs, lambda partition: committed.get(partition, logs[partition].latest))


def to_times(logs: Mapping[TopicPartition, Log], found: Mapping[TopicPartition, int]) -> Plan:
    """The first record at or after a time: `found` by the brokers, or the end of the log where there is none."""
    return _each(logs, lambda partition: found.get(partition, logs[partition].latest))


def to_given(logs: Mapping[TopicPartition, Log], given: Mapping[TopicPartition, int]) -> Plan:
    """Offsets from a file. Raises PlanError if it names a partition that does not exist."""
    unknown = sorted(f"{topic}-{number}" for topic, number in given.keys() - logs.keys())
    if unknown:
        raise PlanError(f"there is no partition {', '.join(unknown)}")
    return _each({partition: logs[partition] for partition in given}, lambda partition: given[partition])


def _each(logs: Mapping[TopicPartition, Log], wanted: Callable[[TopicPartition], int]) -> Plan:
    plan = Plan()
    for partition, log in logs.items():
        plan.add(partition, wanted(partition), log)
    return plan


# --- what people write ---


def parse_time(text: str) -> int:
    """Unix milliseconds of `YYYY-MM-DDTHH:MM:SS.sss`, UTC unless it names a zone. Raises PlanError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise PlanError(
            f"{text!r} is not a time such as 2026-01-31T13:45:00.000 (UTC, or with a zone: +02:00)"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def parse_duration(text: str) -> int:
    """Milliseconds of an ISO 8601 duration such as P7DT12H30M, or of "90m". Raises PlanError."""
    try:
        return durations.parse_duration(text) // timedelta(milliseconds=1)
    except ValueError:
        raise PlanError(f"{text!r} is not a duration such as P7D, PT12H, P1DT2H30M or 90m") from None
