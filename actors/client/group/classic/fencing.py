"""The identity by which a member of a classic group commits, and the lessons of a refusal. Sans-IO."""

from __future__ import annotations

from actors.client.errors import CommitFailedError, FencedInstanceIdError, KafkaError, RebalanceInProgressError
from actors.client.group.classic.config import MembershipConfig
from actors.client.group.classic.joining import Joining
from actors.client.group.classic.standing import MemberState, Standing
from actors.client.group.generation import Generation
from actors.client.group.holdings import Holdings
from actors.wire.errors import ErrorCode as Code


class Fencing:
    """A commit is made and sent in one generation, and is refused when that is over."""

    def __init__(self, config: MembershipConfig, standing: Standing, holdings: Holdings, joining: Joining) -> None:
        self._config = config
        self._standing = standing
        self._holdings = holdings
        self._joining = joining

    def commits_as(self, *, within_session: bool) -> Generation:
        """The present generation. Raises RebalanceInProgressError or CommitFailedError if none may commit now."""
        if self._standing.state is not MemberState.STABLE:
            raise RebalanceInProgressError if self._standing.rebalancing else CommitFailedError
        if not within_session:
            raise CommitFailedError(
                f"no heartbeat was answered for session_timeout_ms={self._config.session_timeout_ms}: the partitions "
                "may belong to another member by now; call poll() to join again"
            )
        return self._standing.generation

    def refused(self, code: int, made: Generation, where: str) -> KafkaError | None:
        """The error to raise for a refused commit that was made in `made`; None if it is not about membership."""
        unchanged = made == self._standing.generation
        preparing = self._standing.state is MemberState.PREPARING_REBALANCE
        match code:
            case Code.FENCED_INSTANCE_ID:
                if unchanged:
                    return FencedInstanceIdError(f"{where}: {FencedInstanceIdError.hint}")
                return RebalanceInProgressError() if preparing else CommitFailedError()
            case Code.REBALANCE_IN_PROGRESS:
                self._joining.request("a commit was answered with a rebalance in progress")
                return RebalanceInProgressError()
            case Code.ILLEGAL_GENERATION | Code.UNKNOWN_MEMBER_ID:
                if not self._holdings.subscribed:
                    return CommitFailedError(f"{where}: the group has members of its own; {CommitFailedError.hint}")
                if not unchanged and preparing:
                    return RebalanceInProgressError()
                if unchanged:
                    self._joining.out(keep_member_id=code == Code.ILLEGAL_GENERATION)
                return CommitFailedError()
        return None
