"""The states of a classic group, and which may follow which."""

from __future__ import annotations

from enum import StrEnum


class GroupState(StrEnum):
    """A group's state. The third column names the method of `ClassicGroup` that moves it on.

    ====================  ==========================================  ====================  =======================
    state                 what ends it                                transition            who may make it
    ====================  ==========================================  ====================  =======================
    Empty                 a member joins                              begin_rebalance       rebalance.py
    (no members)          it is deleted, or has expired               begin_deletion        admin.py, expiry.py
    PreparingRebalance    all members have joined again, or the       begin_generation      rebalance.py
    (members are asked    time they had is over
    to join again)        the same, and nobody is left                become_empty          rebalance.py
    CompletingRebalance   the leader's assignment is durable          complete_assignment   sync.py, once it is
    (the assignment is    somebody comes, changes or goes; or the     begin_rebalance       rebalance.py, and
    awaited)              assignment could not be written                                   sync.py for the latter
    Stable                somebody comes, changes or goes             begin_rebalance       rebalance.py
    Dead                  the tombstone has committed: the object     (none)                admin.py, expiry.py
    (a tombstone is       is dropped. It could not be written:        `reborn` makes an
    on its way)           another group takes its place               Empty one
    ====================  ==========================================  ====================  =======================

    A group begins Empty, or Stable if it is loaded with members. A shard that is unloaded drops its groups in whatever
    state they are.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


TRANSITIONS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
    GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE}),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.STABLE}),
    GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.DEAD: frozenset(),
}
"""The states that may follow each."""
