"""The partitions that members of groups use, each as far as it knows, whichever protocol it speaks. The invariant:

one-owner   nobody begins to use a partition that another one uses, if both are members and live

A member uses a partition from when its user is told of it until its user has given it up, or its process has ended. One
that its group has expelled and that has not heard of it may still use what it had: so the group's log is asked.

A classic group does not wait for a static member beyond its rebalance timeout, and does not expel it either (KIP-345):
what it uses by an older generation is not its own any more, though it is a member.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from actors.client.records import TopicPartition
from tests.sim.engine import Process, Simulation


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that one process of a member uses."""

    process: Process
    member_id: str
    generation: int
    is_static: bool
    partitions: frozenset[TopicPartition]


@dataclass(slots=True)
class Claims:
    """Those of all groups. `holds` says whether the claim of a member of a group is good."""

    sim: Simulation
    holds: Callable[[str, Claim], bool] = lambda group, claim: True
    _claims: dict[str, dict[str, Claim]] = field(default_factory=dict)
    """By group, and by the name of the client."""

    def uses(self, group: str, client: str, claim: Claim) -> None:
        """A client uses exactly this from now on."""
        claims = self._claims.setdefault(group, {})
        before = claims.get(client)
        kept = before.partitions if before is not None and before.process is claim.process else frozenset()
        claims[client] = claim
        new = claim.partitions - kept
        if not new or not self.holds(group, claim):
            return
        for name, other in claims.items():
            common = sorted(new & other.partitions)
            if name != client and common and other.process.alive and self.holds(group, other):
                where = f"{common[0].topic}-{common[0].partition} of {group}"
                self.sim.fail("one-owner", f"{name} uses {where}, and {client} has been given it")
