"""The events of a chaos run, one JSON line each, and the invariants that they must keep.

Events: `sent`/`acked` of records, `committing`/`committed`/`read` of offsets, `handled` records, those of a partition
that was in hand elsewhere (`two_at_once`), `deadly` ones that were begun and end their process, those that were
`set_aside`, `fault` and `healed`. Of members: what each `took` and `gave` up or has `lost` with its membership, when it
has `left`, that its client has `timed_out` without an answer, what it knows to be committed (`kept`), and which epoch
of a consumer group it has `heard` last; by the log, `owners` of a classic group's generation, what a member of a
consumer group `holds`, and that it has `ended`; and that a group has another `protocol`. Times are monotonic seconds
since the run began.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

_BEHIND_S = 30.0
"""The longest time between a downgrade in the log and a member's news that it was behind: shards may be away."""


_RELOAD_S = 15.0
"""The longest wait of a member after others' commits are answered again: shards load, clients reconnect."""


class History:
    """Written by many threads; read back when they have ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begun, self._begun_at = time.monotonic(), time.time()
        self._lock = threading.Lock()
        self._file: IO[str] = path.open("w")

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._begun

    def at(self, timestamp_ms: int) -> float:
        """The time a record was written, in seconds since the run began: all of a run is on one machine."""
        return round(timestamp_ms / 1000 - self._begun_at, 4)

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
            size = self.path.stat().st_size  # a line behind this may not be complete yet
        with self.path.open("rb") as file:
            return [json.loads(line) for line in file.read(size).splitlines()]


@dataclass
class Outcome:
    """The verdict on a history. `violations` are sentences; there must be none."""

    violations: list[str] = field(default_factory=list)
    faults: dict[str, int] = field(default_factory=dict)
    records_acked: int = 0
    records_lost: int = 0
    records_unhandled: int = 0
    commits_acked: int = 0
    commits_lost: int = 0
    double_owners: int = 0
    two_at_once: int = 0
    """Records handled while another process of the pool had a record of their partition in hand."""
    set_aside: int = 0
    """Records that ended their process each time."""
    deaths: int = 0
    """Deaths of processes by such records."""
    false_expulsions: int = 0
    left_behind: int = 0
    """Classic members that lost their partitions because their group became a classic one of a later generation."""
    fallen_behind: int = 0
    """Members of consumer groups that were fenced because answers that told them of two steps were lost."""
    timed_out: int = 0
    """Members whose client gave up its membership, as no group's commit was acknowledged meanwhile."""
    kept: int = 0
    """Acknowledged commits of members."""
    changed_over: int = 0
    """Changes of a group's protocol."""
    back_after_s: list[tuple[str, float]] = field(default_factory=list)
    """For each fault and each group: the kind, and the time until the group's next acknowledged commit."""
    longest_gap_s: float = 0.0
    """The longest time between two acknowledged commits of one group."""


def percentile(values: list[float], share: float) -> float:
    """The value below which that share of them lies; 0 if there are none."""
    return sorted(values)[round(share * (len(values) - 1))] if values else 0.0


def judge(events: list[dict[str, Any]]) -> Outcome:
    """Check every invariant over a finished run."""
    outcome = Outcome()
    _records(events, outcome)
    _commits(events, outcome)
    _owners(events, outcome)
    _uses(events, outcome)
    _members_commits(events, outcome)
    _availability(events, outcome)
    _expulsions(events, outcome)
    for event in events:
        if event["event"] == "fault":
            outcome.faults[event["kind"]] = outcome.faults.get(event["kind"], 0) + 1
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


def _uses(events: list[dict[str, Any]], outcome: Outcome) -> None:
    """Nobody takes what another member of its group has not given up, and no log says that two hold a partition."""
    users: dict[tuple[str, int], str] = {}
    types: dict[str, str] = {}
    for event in events:
        group, client = event.get("group", ""), event.get("client", "")
        match event["event"]:
            case "took":
                for partition in event["partitions"]:
                    user = users.setdefault((group, partition), client)
                    if user != client:
                        outcome.double_owners += 1
                        text = f"{client} took partition {partition} of {group}, which {user} had not given up"
                        outcome.violations.append(f"at {event['at']:.1f} s {text}")
                        users[group, partition] = client
            case "gave" | "lost" | "left":
                gone = event.get("partitions", [p for (g, p), user in users.items() if (g, user) == (group, client)])
                for partition in gone:
                    if users.get((group, partition)) == client:
                        del users[group, partition]
            case "holds" if event["twice"]:
                outcome.double_owners += 1
                text = f"the log of {group} has two members hold a partition: {event['member']} and {event['twice']}"
                outcome.violations.append(f"at {event['at']:.1f} s {text}")
            case "protocol":
                outcome.changed_over += types.get(group, event["type"]) != event["type"]
                types[group] = event["type"]


def _expulsions(events: list[dict[str, Any]], outcome: Outcome) -> None:
    """A member loses its membership only by a rule of Kafka, and the history shows that the rule applied.

    A client gives it up when its session passes without an answer; then no group's commit was acknowledged, either. A
    classic member that a downgrade leaves behind gets 22, once (K-E-47). A member of a consumer group is fenced if its
    epoch is neither the coordinator's for it nor the one before (110, K-A-42).
    """
    behind, fallen, unanswered = _left_behind(events), _fallen_behind(events), _unanswered(events)
    for place, event in enumerate(events):
        if event["event"] != "lost":
            continue
        if place in fallen:
            outcome.fallen_behind += 1
            continue
        if place in unanswered:
            outcome.timed_out += 1
            continue
        for downgrade in behind:
            group, client, at = downgrade
            if (group, client) == (event.get("group"), event["client"]) and abs(event["at"] - at) < _BEHIND_S:
                behind.remove(downgrade)
                outcome.left_behind += 1
                break
        else:
            outcome.false_expulsions += 1
            outcome.violations.append(f"at {event['at']:.1f} s {event['client']} lost its membership, never silent")


def _fallen_behind(events: list[dict[str, Any]]) -> set[int]:
    """The places of `lost` events whose members had to be fenced, by the records written before.

    The last record of such a member has it as a member, with a previous epoch above the epoch that it heard last. Each
    answer that a member hears excuses one loss at most.
    """
    written: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["event"] in ("holds", "ended"):
            written[event["group"], event["member"]].append(event)
    found: set[int] = set()
    heard: dict[tuple[str, str], dict[str, Any]] = {}
    for place, event in enumerate(events):
        match event["event"]:
            case "heard":
                heard[event["group"], event["client"]] = event
            case "left":
                heard.pop((event["group"], event["client"]), None)
            case "lost" if last := heard.pop((event.get("group", ""), event["client"]), None):
                before = [each for each in written[event["group"], last["member"]] if each["written"] <= event["at"]]
                if before and before[-1]["event"] == "holds" and last["epoch"] < before[-1]["previous"]:
                    found.add(place)
    return found


def _unanswered(events: list[dict[str, Any]]) -> set[int]:
    """The places of `lost` events of members that got no answer while no group's commit was acknowledged, either."""
    commits = [event["at"] for event in events if event["event"] == "committed"]
    found: set[int] = set()
    said: dict[tuple[str, str], dict[str, Any]] = {}
    for place, event in enumerate(events):
        if event["event"] == "timed_out":
            said[event["group"], event["client"]] = event
        elif event["event"] == "lost" and (timeout := said.pop((event.get("group", ""), event["client"]), None)):
            since = timeout["at"] - timeout["silence_s"]
            moments = [since, *(at for at in commits if since < at < timeout["at"]), timeout["at"]]
            if max(b - a for a, b in itertools.pairwise(moments)) > timeout["silence_s"] - _RELOAD_S:
                found.add(place)
    return found


def _left_behind(events: list[dict[str, Any]]) -> list[tuple[str, str, float]]:
    """Members whose epoch was lower than the generation when their group became classic: group, client, and time."""
    found: list[tuple[str, str, float]] = []
    known: dict[tuple[str, str], tuple[int, str]] = {}
    downgraded: set[str] = set()
    for event in events:
        match event["event"]:
            case "holds":
                known[event["group"], event["member"]] = event["epoch"], event["client"]
            case "protocol":
                (downgraded.add if event["type"] == "classic" else downgraded.discard)(event["group"])
            case "owners" if event["group"] in downgraded:
                group, generation = event["group"], event["generation"]
                downgraded.discard(group)
                members = [known[group, each] for each in event["members"] if (group, each) in known]
                found += [(group, client, event["at"]) for epoch, client in members if epoch < generation]
    return found


def _members_commits(events: list[dict[str, Any]], outcome: Outcome) -> None:
    """Whoever takes a partition goes on from the last acknowledged commit of its group, or from a later one."""
    kept: dict[tuple[str, int], int] = {}
    begins: dict[tuple[str, str, int], int] = {}
    for event in events:
        group, client = event.get("group", ""), event.get("client", "")
        if event["event"] == "kept":
            outcome.kept += 1
            for partition, offset in event["offsets"].items():
                place = group, int(partition)
                kept[place] = max(offset, kept.get(place, 0))
        elif event["event"] == "took":
            begins.update({(group, client, each): kept.get((group, each), 0) for each in event["partitions"]})
        elif event["event"] == "handled" and event["offsets"]:
            least, first = begins.pop((group, client, event["partition"]), 0), event["offsets"][0]
            if first < least:
                outcome.commits_lost += 1
                text = f"{client} went on from {first} of partition {event['partition']}, {group} had committed {least}"
                outcome.violations.append(f"at {event['at']:.1f} s {text}")


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
