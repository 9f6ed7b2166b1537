"""The standing of a member in a consumer group: its state, its epoch, and the table of possible events by state.

Sans-IO. `TABLE` has the next state for each state and happening; a pair that is not in it is a bug of the machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from actors import CoterieError
from actors.client.group.generation import Generation

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_FOR_A_WHILE_EPOCH: Final = -2
"""Of a static member that is expected back (KIP-345)."""


class MemberState(Enum):
    """Kafka's names. Heartbeats are sent from JOINING to PREPARE_LEAVING.

    UNSUBSCRIBED: in no group, and without a wish to be; a poll with a subscription ends it.
    JOINING: the join is due or under way; the first assignment ends it.
    RECONCILING: an assignment was received that the user's thread has yet to take over.
    ACKNOWLEDGING: it has; the next heartbeat says so, and ends it.
    STABLE: the coordinator knows that this member has what it was given; another assignment ends it.
    PREPARE_LEAVING: the listener hears of the end.
    LEAVING: the last heartbeat is due; sending it ends it.
    FENCED: the coordinator has expelled it. Its partitions are lost, and when the listener knows, it joins again.
    STALE: it left because the program did not poll. The next poll tells the listener, and joins again.
    FATAL: the group will not have it. Only another consumer may.
    """

    UNSUBSCRIBED = "UNSUBSCRIBED"
    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    PREPARE_LEAVING = "PREPARE_LEAVING"
    LEAVING = "LEAVING"
    FENCED = "FENCED"
    STALE = "STALE"
    FATAL = "FATAL"


class Happening(Enum):
    """The events that change a member's state."""

    JOIN = "a poll has a subscription and no membership"
    ASSIGNED = "an assignment was received that is not what the member has"
    AS_BEFORE = "an assignment was received that the member has already"
    TAKEN_OVER = "the user's thread has taken an assignment over"
    ACKNOWLEDGED = "a heartbeat that says what is owned was sent"
    BEHIND = "a heartbeat that says what is owned was sent, and another assignment waits"
    PREPARE = "the program or the poll timer ends the membership"
    LEAVE = "the listener has heard of it"
    LEFT = "the last heartbeat was sent, or cannot be"
    POLL_EXPIRED = "the last heartbeat was sent, because the program does not poll"
    FENCED = "the coordinator does not know this member, or its epoch"
    RELEASED = "the listener has heard that everything is lost"
    FAILED = "the group will not have this member"


_S, _H = MemberState, Happening
_IN_GROUP: Final = (_S.JOINING, _S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE)
_MEMBERS: Final = (_S.RECONCILING, _S.ACKNOWLEDGING, _S.STABLE, _S.PREPARE_LEAVING)

TABLE: Final[Mapping[Happening, Mapping[MemberState, MemberState]]] = MappingProxyType(
    {
        _H.JOIN: {_S.UNSUBSCRIBED: _S.JOINING, _S.STALE: _S.JOINING},
        _H.ASSIGNED: {
            _S.JOINING: _S.RECONCILING,
            _S.RECONCILING: _S.RECONCILING,
            _S.ACKNOWLEDGING: _S.ACKNOWLEDGING,  # first it says what it has; BEHIND comes next
            _S.STABLE: _S.RECONCILING,
        },
        _H.AS_BEFORE: {
            _S.JOINING: _S.STABLE,
            _S.RECONCILING: _S.STABLE,
            _S.ACKNOWLEDGING: _S.ACKNOWLEDGING,
            _S.STABLE: _S.STABLE,
        },
        _H.TAKEN_OVER: {_S.RECONCILING: _S.ACKNOWLEDGING},
        _H.ACKNOWLEDGED: {_S.ACKNOWLEDGING: _S.STABLE},
        _H.BEHIND: {_S.ACKNOWLEDGING: _S.RECONCILING},
        _H.PREPARE: dict.fromkeys(_IN_GROUP, _S.PREPARE_LEAVING),
        _H.LEAVE: {_S.PREPARE_LEAVING: _S.LEAVING},
        _H.LEFT: {_S.LEAVING: _S.UNSUBSCRIBED, _S.FENCED: _S.UNSUBSCRIBED},
        _H.POLL_EXPIRED: {_S.LEAVING: _S.STALE},
        _H.FENCED: {**dict.fromkeys(_IN_GROUP, _S.FENCED), _S.PREPARE_LEAVING: _S.UNSUBSCRIBED},
        _H.RELEASED: {_S.FENCED: _S.JOINING},
        _H.FAILED: dict.fromkeys((*_IN_GROUP, _S.PREPARE_LEAVING, _S.UNSUBSCRIBED), _S.FATAL),
    }
)


class IllegalTransitionError(CoterieError):
    """A bug in the membership machine; the state has not changed."""


class Standing:
    """State and epoch. `member_id` is made once, and stays."""

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.state = MemberState.UNSUBSCRIBED
        self.epoch = JOIN_EPOCH
        self._joined_at: int | None = None

    def happened(self, happening: Happening) -> None:
        """Move to the state that the table has. Raises IllegalTransitionError."""
        to = TABLE[happening].get(self.state)
        if to is None:
            raise IllegalTransitionError(f"in {self.state.value}, this cannot happen: {happening.value}")
        self.state = to
        if to not in _MEMBERS:
            self.epoch = JOIN_EPOCH
            self._joined_at = None

    def at_epoch(self, epoch: int) -> None:
        """The coordinator has said which epoch this member has."""
        self.epoch = epoch
        if self._joined_at is None:
            self._joined_at = epoch

    @property
    def generation(self) -> Generation:
        """The member's place; none before the join is answered, and after the end."""
        return Generation(self.epoch, self.member_id) if self.epoch > 0 else Generation()

    def since_joined(self, made: Generation) -> bool:
        """True if `made` is a place of the present membership, and not of one that has ended."""
        return self._joined_at is not None and self._joined_at <= made.id <= self.epoch

    @property
    def in_group(self) -> bool:
        """True if it is joining, or a member."""
        return self.state in _IN_GROUP

    @property
    def beating(self) -> bool:
        """True if the coordinator awaits heartbeats."""
        return self.in_group or self.state is MemberState.PREPARE_LEAVING

    @property
    def holding(self) -> bool:
        """True if the member's partitions are its own."""
        return self.epoch > 0 and self.state in _MEMBERS
