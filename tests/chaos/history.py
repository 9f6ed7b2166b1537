"""What happened in a chaos run, one JSON line an event, and what must be true of it.

Events: `sent`/`acked` of records, `committing`/`committed`/`read` of offsets, `handled` records, those of a partition
that was in hand elsewhere (`two_at_once`), `deadly` ones that were begun and end their process, those that were
`set_aside`, `lost` memberships, `owners` of a generation, `fault` and `healed`. Times are monotonic seconds since the
run began.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any


class History:
    """Written by many threads; read back when they have ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._file: IO[str] = path.open("w")

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begun

    def note(self, event: str, **more: Any) -> None:
        """Write an event."""
        line = json.dumps({"at": round(self.now(), 4), "event": event, **more})
        with self._lock:
            self._file.write(line + "\n")

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def read(self) -> list[dict[str, Any]]:
        """All events, in the order they were written."""
        with self._lock:
            if not self._file.closed:
                self._file.flush()
            size = self.path.stat().st_size  # what others add meanwhile may be half a line
        with self.path.open("rb") as file:
            return [json.loads(line) for line in file.read(size).splitlines()]


@dataclass
class Outcome:
    """What a history amounts to. `violations` are sentences; there must be none."""

    violations: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    records_acked: int = 0
    records_lost: int = 0
    records_unhandled: int = 0
    commits_acked: int = 0
    commits_lost: int = 0
    double_owners: int = 0
    two_at_once: int = 0
    """Records of a partition that another process of the pool had a record of in hand."""
    set_aside: int = 0
    """Records that ended their process each time."""
    deaths: int = 0
    """Of processes that such a record has ended."""
    false_expulsions: int = 0
    back_after_s: list[tuple[str, float]] = field(default_factory=list)
    """For each fault and each group: its kind, and from the fault to the group's first acknowledged commit."""
    longest_gap_s: float = 0.0
    """Between two acknowledged commits of one group."""


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of them lies; 0 if there are none."""
    return sorted(values)[round(share * (len(values) - 1))] if values else 0.0


def judge(events: list[dict[str, Any]]) -> Outcome:
    """Check every invariant over a finished run."""
    outcome = Outcome()
    _records(events, outcome)
    _commits(events, outcome)
    _owners(events, outcome)
    _availability(events, outcome)
    for event in events:
        if event["event"] == "fault":
            outcome.faults[event["kind"]] = outcome.faults.get(event["kind"], 0) + 1
        elif event["event"] == "lost":
            outcome.false_expulsions += 1
            outcome.violations.append(f"at {event['at']:.1f} s {event['client']} lost its membership, never silent")
        elif event["event"] == "deadly":
            outcome.deaths += 1
        elif event["event"] == "two_at_once":
            outcome.two_at_once += 1
            where = f"partition {event['partition']} offset {event['offsets'][0]}"
            outcome.violations.append(f"process {event['pid']} handled {where} while another had the partition")
    return outcome


def _records(events: list[dict[str, Any]], outcome: Outcome) -> None:
    """Each acknowledged record is in the log where it was acknowledged, and every group has handled it."""
    acked: dict[tuple[int, int], str] = {}
    stored: dict[tuple[int, int], str] = {}
    handled: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for event in events:
        if event["event"] in ("acked", "stored"):
            (acked if event["event"] == "acked" else stored)[event["partition"], event["offset"]] = event["id"]
        elif event["event"] in ("handled", "two_at_once", "set_aside"):
            handled[event["group"]].update((event["partition"], offset) for offset in event["offsets"])
    outcome.records_acked = len(acked)
    aside = [event for event in events if event["event"] == "set_aside"]
    outcome.set_aside = len({(event["partition"], *event["offsets"]) for event in aside})
    for place, name in acked.items():
        if stored.get(place) != name:
            outcome.records_lost += 1
            outcome.violations.append(f"record {name}, acknowledged at {place}, is not there: {stored.get(place)}")
    for group, places in handled.items():
        missing = stored.keys() - places
        outcome.records_unhandled += len(missing)
        if missing:
            outcome.violations.append(f"group {group} never handled {len(missing)} records, {min(missing)} among them")


def _commits(events: list[dict[str, Any]], outcome: Outcome) -> None:
    """A committed offset is a register with one writer: a read gives the last acknowledged value or a later attempt."""
    acked: dict[str, int] = defaultdict(int)
    tried: dict[str, int] = defaultdict(int)
    floor: dict[tuple[str, int], int] = {}
    for event in events:
        kind, group = event["event"], event.get("group", "")
        if kind == "committing":
            tried[group] = event["offset"]
        elif kind == "committed":
            acked[group] = event["offset"]
            outcome.commits_acked += 1
        elif kind == "reading":
            floor[group, event["number"]] = acked[group]
        elif kind == "read":
            least, found = floor[group, event["number"]], event["offset"]
            if max(found, 0) < least:
                outcome.commits_lost += 1
                outcome.violations.append(
                    f"group {group} had committed {least}, and at {event['at']:.1f} s has {found}"
                )
            elif found > tried[group]:
                outcome.violations.append(f"group {group} has {found}, which nobody committed (last {tried[group]})")


def _owners(events: list[dict[str, Any]], outcome: Outcome) -> None:
    """One owner a partition in a generation; a generation never means two different things."""
    seen: dict[tuple[str, int], dict[str, list[int]]] = {}
    for event in events:
        if event["event"] != "owners":
            continue
        where, members = (event["group"], event["generation"]), event["members"]
        taken = [partition for partitions in members.values() for partition in partitions]
        if len(taken) != len(set(taken)):
            outcome.double_owners += 1
            outcome.violations.append(f"{where} gives a partition to two members: {members}")
        if seen.setdefault(where, members) != members:
            outcome.violations.append(f"{where} is used again, for {members}, having been {seen[where]}")


def _availability(events: list[dict[str, Any]], outcome: Outcome) -> None:
    waiting: dict[str, list[tuple[str, float]]] = defaultdict(list)
    last: dict[str, float] = {}
    groups = {event["group"] for event in events if event["event"] == "committed"}
    for event in events:
        if event["event"] == "fault":
            for group in groups & last.keys():
                waiting[group].append((event["kind"], event["at"]))
        elif event["event"] == "committed":
            group, at = event["group"], event["at"]
            outcome.back_after_s += [(kind, at - since) for kind, since in waiting.pop(group, ())]
            outcome.longest_gap_s = max(outcome.longest_gap_s, at - last.get(group, at))
            last[group] = at
