"""The input of `groups reset-offsets`: topics, and files of offsets. Plans are the client's `offset_plans`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from actors.cli.errors import CliError
from actors.runtime.escaping import escaped

if TYPE_CHECKING:
    from actors.client import TopicPartition


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

    A line without a group belongs to the only one of `groups`. Groups are named as they are, or as `csv_lines` does.
    """
    from actors.client import TopicPartition

    known = list(groups)
    named: dict[str, set[str]] = {}
    for group in known:
        for name in (group, _name_of(group)):
            named.setdefault(name, set()).add(group)
    plans: dict[str, dict[TopicPartition, int]] = {}
    for number, fields in enumerate(csv.reader(io.StringIO(text)), 1):
        if not fields:
            continue
        name, rest = (fields[0], fields[1:]) if len(fields) == 4 else (known[0] if len(known) == 1 else "", fields)
        meant = sorted(named.get(name, ()))
        if not meant or len(rest) != 3 or not all(part.strip().isdecimal() for part in rest[1:]):
            form = "topic,partition,offset" if len(known) == 1 else "group,topic,partition,offset with a group named"
            raise CliError(f"line {number} of the file is not {form}: {','.join(fields)!r}")
        if len(meant) > 1:
            raise CliError(f"line {number} of the file may mean group {meant[0]!r} or {meant[1]!r}: give only one")
        plans.setdefault(meant[0], {})[TopicPartition(rest[0], int(rest[1]))] = int(rest[2])
    return plans


def csv_lines(plans: Mapping[str, Mapping[TopicPartition, int]]) -> list[str]:
    r"""The lines that `read_csv` reads. Each names its group if there are several.

    In a group's name all that is not printable is an escape, and a backslash is doubled: the file can be shown.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in plans.items():
        for (topic, number), offset in sorted(offsets.items()):
            named = [_name_of(group)] if len(plans) > 1 else []
            writer.writerow([*named, escaped(topic), number, offset])
    return out.getvalue().splitlines()


def _name_of(group: str) -> str:
    return escaped(group.replace("\\", "\\\\"))
