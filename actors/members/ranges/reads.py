"""The values that parts of `read_group` hand one another: what is to be read, and one batch of it. No Ray is here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.client.records import OffsetRange
from actors.members.ranges.group import RangeMemberSpec


@dataclass(frozen=True, slots=True)
class Reading:
    """The settings by which tasks read. `options` are settings of a Consumer without a group; they go through Ray."""

    bootstrap_servers: str
    fail_on_data_loss: bool
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The plan of a read. `start` ("earliest" or "latest") is where topics begin without a committed offset.

    `quiet`: Ray Data shows no bars and announces nothing, since there will be many datasets.
    """

    spec: RangeMemberSpec
    reading: Reading
    start: str
    settle_timeout_s: float
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """The ranges that are read next, and for each partition the fencing token that a commit must name."""

    number: int
    ranges: tuple[OffsetRange, ...]
    fencing_tokens: Mapping[tuple[str, int], str]
