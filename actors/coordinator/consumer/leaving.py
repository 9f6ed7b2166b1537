"""The departure of members.

They leave, for good or for a while; or they are removed because they were not heard, or gave nothing back in time.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

from actors.coordinator.consumer.membership import identify, remove, step_aside
from actors.coordinator.consumer.messages import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    Refusal,
)
from actors.coordinator.consumer.operations import Answer, Draft, Operation
from actors.coordinator.consumer.records import CurrentAssignment, TargetAssignment
from actors.coordinator.consumer.state import ConsumerState
from actors.coordinator.consumer.values import STATIC_LEAVE_EPOCH, Current
from actors.coordinator.errors import Error
from actors.coordinator.turn import Token


class Leave(Operation):
    """A member leaves: a static one with epoch -2 for a while, all others for good. Its epoch does not matter."""

    def __init__(self, token: Token, request: ConsumerGroupHeartbeatRequest) -> None:
        self.token = token
        self._request = request

    def answer_of(self, refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(int(refusal.error), refusal.message)

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        member_id, epoch = self._request.member_id, self._request.member_epoch
        refusal = identify(draft.state, member_id, self._request.instance_id)
        if refusal is not None:
            return refusal
        if epoch == STATIC_LEAVE_EPOCH:
            step_aside(draft, member_id)
        else:
            refusal = remove(draft, (member_id,), "member left")
        return refusal or ConsumerGroupHeartbeatResponse(Error.NONE, member_id=member_id, member_epoch=epoch)


class EndOfSession(Operation):
    """A member has not been heard for a whole session. If a heartbeat came just before, it stays."""

    def __init__(self, member_id: str, is_over: Callable[[], bool]) -> None:
        self.member_id = member_id
        self.is_over = is_over
        """Tells whether the session is over, or a heartbeat has prolonged it."""

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        if self.member_id in draft.state.metadata and self.is_over():
            remove(draft, (self.member_id,), "session timed out", expels=True)


class EndOfRebalance(Operation):
    """A member was told to give partitions back, and has not in all the time it had. If it has moved on, it stays."""

    def __init__(self, member_id: str, since: Current) -> None:
        self.member_id = member_id
        self.since = since

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        if self.is_due(draft.state):
            remove(draft, (self.member_id,), "rebalance timed out", expels=True)

    def is_due(self, state: ConsumerState) -> bool:
        """True if the member is where it was. One that has moved on has a timer of its own again, if it needs one."""
        return self.member_id in state.metadata and state.current_of(self.member_id) == self.since


class EndOfWait(Operation):
    """A classic member was to join again, or to ask for its assignment, and has not in all the time it had."""

    def __init__(self, member_id: str, reason: str, is_over: Callable[[], bool], retry: Callable[[int], None]) -> None:
        self.member_id = member_id
        self.retry = retry
        """Have it tried again at this time (monotonic ms)."""
        self._reason = reason
        self._is_over = is_over

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        member = draft.state.metadata.get(self.member_id)
        if member is not None and member.classic is not None and self._is_over():
            remove(draft, (self.member_id,), self._reason, expels=True)


class Tidy(Operation):
    """Remove what is left of members whose other records were lost. To be done once after loading."""

    def steps(self, draft: Draft) -> Generator[None, None, Answer]:
        yield from ()
        for member_id in sorted(draft.state.leftovers()):
            draft.write(CurrentAssignment(draft.group_id, member_id))
            draft.write(TargetAssignment(draft.group_id, member_id))
