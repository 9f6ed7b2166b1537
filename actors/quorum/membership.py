"""Sets of voters: what a majority is, and which change of a set may be made when.

Two majorities of one set have a voter in common, and so have those of two sets that differ by one voter. If they
differed by two, they might not; so they change one by one, and the next change waits until the last has committed. The
leader must have committed an entry of its own epoch before, too: else a change that an earlier leader began could still
commit beside its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from actors.quorum.errors import ChangeRefusedError
from actors.quorum.log import Log, VoterId, Voters


def is_majority(some: Collection[VoterId], voters: Voters) -> bool:
    """True if more than half of the voters are among these."""
    return 2 * sum(voter in some for voter in voters) > len(voters)


def majority_has(values: Iterable[float]) -> float:
    """The largest value that a majority of the voters has reached. Each of them has one."""
    in_order = sorted(values, reverse=True)
    return in_order[len(in_order) // 2]


def check_change(log: Log, epoch: int, committed: int, after: Voters) -> None:
    """Raise ChangeRefusedError if the leader of this epoch may not make these the voters."""
    before = log.voters
    if log.epoch_at(committed) != epoch:
        raise ChangeRefusedError("the leader has not committed anything of its epoch yet")
    if log.changed_at > committed:
        raise ChangeRefusedError(f"the last change of voters, entry {log.changed_at}, has not committed yet")
    if len(set(before) ^ set(after)) != 1:
        raise ChangeRefusedError("one voter is added or removed at a time")
    if not after:
        raise ChangeRefusedError("the last voter stays")
    if len({voter.id for voter in after}) != len(after):
        raise ChangeRefusedError("a node is a voter with one directory: the former one is removed first")
