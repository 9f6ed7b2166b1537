"""The answers that clients got; later answers keep the promises of earlier ones. The invariants of the outside.

register         a read of a committed offset gives the last acknowledged commit or a later attempted one
one-owner        in one generation of a group a partition has one owner; a group that expired begins anew (and see
                 claims.py)
fenced           commits of older generations, strangers and fenced instances get exactly Kafka's error
records-survive  a record acknowledged with acks=all is read where it was acknowledged, for ever
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from actors.client.records import TopicPartition
from tests.sim.claims import Claims
from tests.sim.engine import SECOND, Simulation

Place = tuple[str, TopicPartition]
_FOREVER = 1 << 60


@dataclass(slots=True)
class Attempt:
    """A commit of one offset. `over_us` is when it has taken effect at the latest, if ever."""

    value: int
    begun_us: int
    acked_us: int = _FOREVER
    over_us: int = _FOREVER
    refused: str = ""
    by: str = ""


@dataclass(slots=True)
class History:
    """Everything clients did and saw."""

    sim: Simulation
    attempts: dict[Place, dict[int, Attempt]] = field(default_factory=dict)
    owners: dict[tuple[str, int], dict[TopicPartition, str]] = field(default_factory=dict)
    records: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    """The value at each offset, as an acknowledgement or a fetch said."""
    acked: dict[tuple[str, int], dict[int, bytes]] = field(default_factory=dict)
    commits_acked: int = 0
    reads: int = 0
    probes: int = 0
    assignments: int = 0
    last_position: int = 0
    fleeting: set[str] = field(default_factory=set)
    """Groups that commit offsets which expire soon."""
    sleeps: int = 0
    """The number of times that a shard has gone to sleep."""
    claims: Claims = field(init=False)

    def __post_init__(self) -> None:
        self.claims = Claims(self.sim)

    # -- committed offsets

    def next_position(self) -> int:
        """No offset is committed twice, so that a read tells which commit it sees."""
        self.last_position += 1
        return self.last_position

    def begin_commit(self, group: str, offsets: dict[TopicPartition, int], by: str) -> list[Attempt]:
        begun = [(tp, Attempt(value, self.sim.now, by=by)) for tp, value in offsets.items()]
        for tp, attempt in begun:
            self.attempts.setdefault((group, tp), {})[attempt.value] = attempt
        return [attempt for _, attempt in begun]

    def end_commit(self, attempts: list[Attempt], *, acked: bool, refused: str = "") -> None:
        """The commit is acknowledged, refused by a code that says it never takes effect, or of unknown outcome."""
        self.commits_acked += acked
        for attempt in attempts:
            attempt.refused = refused
            if acked:
                attempt.acked_us = attempt.over_us = self.sim.now

    def read(self, group: str, tp: TopicPartition, value: int | None, begun_us: int) -> None:
        """The group's offset, as answered to a request of `begun_us`."""
        self.reads += 1
        attempts = self.attempts.get((group, tp), {})
        before = [a for a in attempts.values() if a.acked_us < begun_us]
        where = f"{group} {tp.topic}-{tp.partition}"
        if value is None:
            if before:
                last = max(before, key=lambda a: a.begun_us)
                self.sim.fail("register", f"{where} reads as -1, but {last.value} was acknowledged")
            return
        found = attempts.get(value)
        if found is None:
            self.sim.fail("register", f"{where} reads as {value}, which nobody committed")
            return
        if found.refused:
            self.sim.fail("fenced", f"{where} reads as {value}, which was refused: {found.refused}")
        later = [a for a in before if a.begun_us > found.over_us]
        if later:
            self.sim.fail("register", f"{where} reads as {value}, but later {later[0].value} was acknowledged")

    # -- membership

    def assigned(self, group: str, generation: int, member: str, partitions: frozenset[TopicPartition]) -> None:
        self.assignments += 1
        owners = self.owners.setdefault((group, generation), {})
        for tp in sorted(partitions):
            owner = owners.setdefault(tp, member)
            if owner != member:
                self.sim.fail(
                    "one-owner", f"{tp.topic}-{tp.partition} of {group} is {owner}'s and {member}'s in {generation}"
                )

    def expired(self, group: str) -> None:
        """The group is gone, with all its members. A new one of this name counts its generations from the beginning."""
        for key in [key for key in self.owners if key[0] == group]:
            del self.owners[key]

    def probed(self, what: str, code: int, allowed: set[int]) -> None:
        """A commit that must be refused was answered with `code`."""
        self.probes += 1
        if code not in allowed:
            self.sim.fail("fenced", f"{what} was answered {code}, not one of {sorted(allowed)}")

    # -- records

    def wrote(self, topic: str, index: int, base: int, values: list[bytes]) -> None:
        acked = self.acked.setdefault((topic, index), {})
        for offset, value in enumerate(values, base):
            if acked.setdefault(offset, value) != value:
                self.sim.fail("records-survive", f"{topic}-{index} at {offset}: {value!r} and {acked[offset]!r} acked")
            self.saw(topic, index, offset, value)

    def saw(self, topic: str, index: int, offset: int, value: bytes) -> None:
        """A client reads, or is told, the value at an offset."""
        known = self.records.setdefault((topic, index), {}).setdefault(offset, value)
        if known != value:
            self.sim.fail("records-survive", f"{topic}-{index} at {offset}: was {known!r}, is {value!r}")

    def figures(self) -> dict[str, Any]:
        """For people: how much happened."""
        return {
            "virtual_seconds": round(self.sim.now / SECOND, 1),
            "steps": self.sim.steps,
            "commits": self.commits_acked,
            "records": sum(map(len, self.acked.values())),
            "reads": self.reads,
            "probes": self.probes,
            "assignments": self.assignments,
            "sleeps": self.sleeps,
        }
