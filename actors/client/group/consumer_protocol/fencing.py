"""The identity by which a member of a consumer group commits and reads offsets, and the lessons of a refused commit.

Sans-IO.

The coordinator fences by partition: it takes a commit of an older epoch for partitions that the member has held since
(KIP-1251), and refuses one for any other.
"""

from __future__ import annotations

from actors.client.errors import CommitFailedError, KafkaError, StaleMemberEpochError
from actors.client.group.consumer_protocol.answers import OF_THE_PROTOCOL
from actors.client.group.consumer_protocol.standing import MemberState, Standing
from actors.client.group.generation import Generation
from actors.client.group.holdings import Holdings
from actors.wire.errors import ErrorCode as Code

COMMITS_FROM = 9
"""The first version of OffsetCommit and OffsetFetch that a member of this protocol may use."""


class Fencing:
    """A commit is made in one epoch, and sent in the newest one of the same membership."""

    def __init__(self, standing: Standing, holdings: Holdings, *, joins_anew: bool = False) -> None:
        self._joins_anew = joins_anew
        self._standing = standing
        self._holdings = holdings

    def commits_as(self) -> Generation:
        """The place that a commit is made in. Raises CommitFailedError if the membership has ended."""
        if not self._holdings.subscribed or self._standing.state is MemberState.UNSUBSCRIBED:
            return Generation()
        if not self._standing.holding:
            raise CommitFailedError
        return self._standing.generation

    def sends_as(self, made: Generation) -> Generation:
        """The place that a commit made in `made` is sent in.

        One of a membership that has ended is sent as it was made: with the epoch of the next one, the coordinator would
        take it for partitions that may have other owners by now.
        """
        return self._standing.generation if self._standing.since_joined(made) else made

    def fetches_as(self) -> Generation:
        """The place that committed offsets are asked for in; none outside the group, and then nobody checks."""
        return self._standing.generation if self._standing.holding else Generation()

    def refused(self, code: int, where: str) -> KafkaError | None:
        """The error to raise for a refused commit; None if it is not about membership."""
        match code:
            case Code.UNKNOWN_MEMBER_ID if not self._holdings.subscribed:
                return CommitFailedError(f"{where}: the group has members of its own; {CommitFailedError.hint}")
            case Code.UNKNOWN_MEMBER_ID:
                return CommitFailedError(f"{where}: {CommitFailedError.hint}")
            case _ if code in OF_THE_PROTOCOL and self._joins_anew and self._holdings.subscribed:
                return CommitFailedError(f"{where}: {CommitFailedError.hint}")
            case Code.STALE_MEMBER_EPOCH:
                return StaleMemberEpochError(f"{where}: {StaleMemberEpochError.hint}")
        return None
