"""The errors of the clients: one class for each condition that a program may want to catch, named as in Kafka.

`retriable` says whether another attempt may succeed; the message says what to do, and which setting governs it.
`error_codes.error_for` makes an error of a response's error code.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from actors import OutsideError
from actors.client.records import TopicPartition
from actors.wire.errors import ErrorCode


class KafkaError(OutsideError):
    """The base class of the clients' errors. `code` is Kafka's error code, or None where Kafka has none."""

    code: ClassVar[int | None] = None
    retriable: bool = False
    hint: ClassVar[str] = ""

    def __init__(self, message: str = "") -> None:
        super().__init__(message or self.hint or type(self).__name__)


class RetriableError(KafkaError):
    """Another attempt may succeed. The clients repeat it themselves until their timeout, and then raise this."""

    retriable = True


class FatalError(KafkaError):
    """The client cannot go on in this group or with this broker until something outside it changes."""


# --- caused by the program ----------------------------------------------------------------------------------------


class IllegalStateError(KafkaError):
    """A call that is not allowed in the present state, or an answer that breaks the protocol."""


class ConfigurationError(KafkaError, ValueError):
    """A setting that does not exist or a value outside its range."""


class ClosedError(IllegalStateError):
    """The client is closed."""

    hint = "this client is closed"


class ConcurrentUseError(IllegalStateError):
    """Two threads used one consumer at the same time."""

    hint = "a consumer is not for several threads at once; only wakeup() may be called from another thread"


class WakeupError(KafkaError):
    """`wakeup()` was called from another thread."""

    hint = "woken up by wakeup()"


class CallbackError(KafkaError):
    """The program's rebalance listener or assignor raised; what it raised is the `__cause__`."""


class SerializationError(KafkaError):
    """A serializer failed, or did not return bytes."""


class TimestampRangeError(KafkaError):
    """A record's time has no room in the type that it is to have; the text says which record's."""


# --- the network --------------------------------------------------------------------------------------------------


class KafkaTimeoutError(RetriableError, TimeoutError):
    """The call did not finish within its timeout."""


class KafkaConnectionError(RetriableError):
    """The connection broke, or could not be made."""

    hint = "the connection to the broker broke"


class HungUpError(KafkaConnectionError):
    """The broker ended the connection before it answered anything of use: it may speak another security protocol."""


class NoBrokersAvailable(RetriableError):  # noqa: N818 - Kafka clients know it by this name
    """No broker of the bootstrap list or of the cluster can be reached."""

    hint = "no broker can be reached; check bootstrap_servers"


class AuthenticationError(FatalError):
    """A broker does not accept who this client is, or is not one that the client believes. Settings have to change.

    Calls fail with it at once, and the broker is not tried again before reconnect_backoff_max_ms.
    """


class SecurityProtocolError(AuthenticationError):
    """The broker speaks another protocol at this port than `security_protocol` says: TLS, or a login, or neither."""


class SaslAuthenticationError(AuthenticationError):
    """The login failed: the user or the password is wrong, or the broker could not prove that it knows the user."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnsupportedSaslMechanismError(AuthenticationError):
    """The broker does not offer `sasl_mechanism`; the message says what it offers."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslStateError(AuthenticationError):
    """The broker expects no login here."""

    code = ErrorCode.ILLEGAL_SASL_STATE


class SslAuthenticationError(AuthenticationError):
    """There is no TLS with this broker: its certificate is not believed, or it does not accept the client's."""


class CorrelationIdError(KafkaConnectionError):
    """A broker answered a request that was never sent. The connection cannot be used any more and was closed."""


# --- groups -------------------------------------------------------------------------------------------------------


class DataLossError(KafkaError):
    """Offsets that were to be read are not in the log, or no longer."""


class CommitFailedError(KafkaError):
    """The offsets were not committed because this member's partitions now belong to somebody else."""

    hint = (
        "the commit was refused because this consumer is no longer an active member of the group. "
        "Its partitions may belong to another member now, which will see these records again. "
        "If processing took longer than max_poll_interval_ms between two polls, raise that setting or lower "
        "max_poll_records; if heartbeats were held up, raise session_timeout_ms. Call poll() to join again"
    )


class StaleMemberEpochError(CommitFailedError):
    """The member's epoch is not the one that the coordinator has for it, and the partitions may not be its own."""

    code = ErrorCode.STALE_MEMBER_EPOCH
    hint = (
        "the commit was refused because the coordinator has another epoch for this member, or has given its partitions "
        "to others meanwhile. Call poll() to hear of it, then commit for what is still assigned"
    )


class FencedMemberEpochError(KafkaError):
    """The coordinator has another epoch for this member: the member has to join again."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class UnreleasedInstanceIdError(FatalError):
    """Another consumer, which has not left, uses the same `group_instance_id`."""

    code = ErrorCode.UNRELEASED_INSTANCE_ID
    hint = (
        "another consumer of the group with the same group_instance_id has not left yet: wait until it has closed or "
        "its session has ended, or give each running consumer its own"
    )


class UnsupportedAssignorError(FatalError):
    """The broker does not have `group_remote_assignor`."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR
    hint = "group_remote_assignor is none of the broker's group.consumer.assignors"


class InvalidRegularExpressionError(FatalError):
    """The broker cannot read the expression of a SubscriptionPattern."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION
    hint = "the broker reads expressions in the language of RE2"


class RebalanceInProgressError(KafkaError):
    """A rebalance is under way; poll to complete it, then commit again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS
    hint = "a rebalance is in progress: call poll() to complete it, then commit again for what is still assigned"


class FencedInstanceIdError(FatalError):
    """Another consumer uses the same `group_instance_id`."""

    code = ErrorCode.FENCED_INSTANCE_ID
    hint = (
        "another consumer of the group has joined with the same group_instance_id; give each running consumer its own"
    )


class IllegalGenerationError(KafkaError):
    """The request carries an older generation than the group has."""

    code = ErrorCode.ILLEGAL_GENERATION


class UnknownMemberIdError(KafkaError):
    """The coordinator does not know this member."""

    code = ErrorCode.UNKNOWN_MEMBER_ID


class MemberIdRequiredError(KafkaError):
    """The coordinator has given out a member id, with which the member joins again (KIP-394)."""

    code = ErrorCode.MEMBER_ID_REQUIRED


class InconsistentGroupProtocolError(FatalError):
    """This member has no assignor in common with the group, or the group is not a group of consumers."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    hint = (
        "the members of the group have no assignor in common with this one, or the group is not one of consumers; "
        "compare partition_assignment_strategy of all members"
    )


class InvalidGroupIdError(FatalError):
    """The coordinator does not take this group id."""

    code = ErrorCode.INVALID_GROUP_ID
    hint = "group_id must be set, and not be empty, for subscriptions and commits"


class InvalidSessionTimeoutError(FatalError):
    """`session_timeout_ms` lies outside the broker's bounds."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT
    hint = "session_timeout_ms lies outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms"


class GroupMaxSizeReachedError(FatalError):
    """The group is full."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED
    hint = "the group has as many members as the broker's group.max.size allows"


class GroupAuthorizationError(FatalError):
    """Not allowed to use this group."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    hint = "not authorized to use this group"


class CoordinatorLoadInProgressError(RetriableError):
    """The coordinator is reading its log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailableError(RetriableError):
    """There is no coordinator just now."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinatorError(RetriableError):
    """The group's coordinator has moved."""

    code = ErrorCode.NOT_COORDINATOR


class HeartbeatFailedError(FatalError):
    """The background thread, which heartbeats and joins, failed with the error that is the `__cause__` of this one."""


class NonEmptyGroupError(KafkaError):
    """The group still has members."""

    code = ErrorCode.NON_EMPTY_GROUP
    hint = "the group still has members: stop them first"


class GroupIdNotFoundError(KafkaError):
    """There is no such group."""

    code = ErrorCode.GROUP_ID_NOT_FOUND
    hint = "there is no such group"


class GroupSubscribedToTopicError(KafkaError):
    """The offsets cannot be deleted, because members of the group subscribe to the topic."""

    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    hint = "the group is subscribed to the topic: stop its members first"


class UnstableOffsetCommitError(RetriableError):
    """The offset depends on a transaction that is still open."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class OffsetMetadataTooLargeError(KafkaError):
    """The metadata of an offset is too long."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
    hint = "the metadata of an offset is longer than the broker's offset.metadata.max.bytes"


class InvalidCommitOffsetSizeError(KafkaError):
    """The commit is too large for the offsets topic."""

    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


# --- topics and records -------------------------------------------------------------------------------------------


class TopicAuthorizationError(KafkaError):
    """Not allowed to use these topics, whether they exist or not; `topics` has their names."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED

    def __init__(self, message: str = "", topics: Iterable[str] = ()) -> None:
        self.topics = sorted(topics)
        super().__init__(message or f"not authorized to access {', '.join(self.topics) or 'the topic'}")


class UnknownTopicOrPartitionError(RetriableError):
    """The broker does not have this topic or partition. A reader waits for it; a change of it is not `retriable`."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def __init__(self, message: str = "", *, retriable: bool = True) -> None:
        self.retriable = retriable
        super().__init__(message)


class UnknownTopicIdError(RetriableError):
    """The broker has no topic with this id: it was deleted, or the broker has not heard of it yet."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class InvalidTopicError(KafkaError):
    """Not a legal topic name."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class TopicAlreadyExistsError(KafkaError):
    """There is such a topic already."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class NoReassignmentInProgressError(KafkaError):
    """The partition is not being moved, so that no move can be called off (KIP-455)."""

    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class OffsetOutOfRangeError(KafkaError):
    """The log does not have these offsets, and auto_offset_reset is none."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, message: str = "", offsets: dict[TopicPartition, int] | None = None) -> None:
        self.offsets = dict(offsets or {})
        what = ", ".join(f"{tp.topic}-{tp.partition} at {at}" for tp, at in sorted(self.offsets.items()))
        super().__init__(
            message
            or f"the log does not have these offsets: {what}. Seek elsewhere, or set auto_offset_reset to "
            "earliest or latest"
        )


class NoOffsetForPartitionError(KafkaError):
    """The group has no committed offset for a partition, and auto_offset_reset is none."""

    def __init__(self, message: str = "", partitions: Iterable[TopicPartition] = ()) -> None:
        self.partitions = sorted(partitions)
        what = ", ".join(f"{tp.topic}-{tp.partition}" for tp in self.partitions)
        super().__init__(
            message or f"no committed offset for {what}. Seek, or set auto_offset_reset to earliest or latest"
        )


class TopicRecreatedError(DataLossError):
    """Topics were deleted and created again: positions in the old ones mean nothing in the new ones.

    Where loss is to fail, it is raised, for instance with auto_offset_reset none; `topics` has their names.
    """

    def __init__(self, message: str = "", topics: Iterable[str] = ()) -> None:
        self.topics = sorted(topics)
        super().__init__(
            message
            or f"deleted and created again: {', '.join(self.topics)}. The rest of the old topic is lost. Seek "
            "to go on in the new one, or set auto_offset_reset to earliest or latest"
        )


class LogTruncationError(KafkaError):
    """The log was truncated below the position (KIP-320), and auto_offset_reset is none."""

    def __init__(self, message: str = "", offsets: dict[TopicPartition, int] | None = None) -> None:
        self.offsets = dict(offsets or {})
        super().__init__(message or f"the log was cut below the position; it now diverges at {self.offsets}")


class CorruptMessageError(KafkaError):
    """A record batch whose checksum or form is wrong."""

    code = ErrorCode.CORRUPT_MESSAGE


class MessageTooLargeError(KafkaError):
    """The record is too large."""

    code = ErrorCode.MESSAGE_TOO_LARGE
    hint = "the record is larger than max_request_size, or than the topic's max.message.bytes"


class NotLeaderOrFollowerError(RetriableError):
    """The partition's leader has moved."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class LeaderNotAvailableError(RetriableError):
    """The partition has no leader just now."""

    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotEnoughReplicasError(RetriableError):
    """Fewer in-sync replicas than `min.insync.replicas`."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class OutOfOrderSequenceNumberError(KafkaError):
    """Records of an idempotent producer arrived out of order: an earlier batch is lost."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class BufferExhaustedError(KafkaTimeoutError):
    """The producer's buffer stayed full."""


# --- requests -----------------------------------------------------------------------------------------------------


class UnsupportedVersionError(KafkaError):
    """The broker does not serve this request, or no version of it that can say what was asked for."""

    code = ErrorCode.UNSUPPORTED_VERSION


class ClusterAuthorizationError(FatalError):
    """Not allowed to do this to the cluster."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    hint = "not authorized to do this to the cluster"


class TransactionalIdAuthorizationError(FatalError):
    """Not allowed to use this transactional id, or the broker has no transactions."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    hint = "not authorized to use this transactional id"


class InvalidRequestError(KafkaError):
    """The broker finds the request malformed."""

    code = ErrorCode.INVALID_REQUEST


class NotControllerError(RetriableError):
    """This broker is not the controller."""

    code = ErrorCode.NOT_CONTROLLER


class UnknownServerError(KafkaError):
    """The broker failed in an unexpected way; its log says how."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class BrokerResponseError(KafkaError):
    """Any other error code of a response, in `error_code`."""

    def __init__(self, message: str = "", error_code: int = 0) -> None:
        self.error_code = error_code
        super().__init__(message)


class RetriableResponseError(BrokerResponseError, RetriableError):
    """A retriable error code of a response that has no class of its own."""
