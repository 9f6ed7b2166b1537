"""The exception for each error code of a response, and whether asking again may help."""

from __future__ import annotations

from collections.abc import Iterable

from actors.client.errors import BrokerResponseError, KafkaError, RetriableResponseError, TopicAuthorizationError
from actors.wire.errors import ErrorCode


def _with_codes(root: type[KafkaError]) -> dict[int, type[KafkaError]]:
    found: dict[int, type[KafkaError]] = {}
    for cls in root.__subclasses__():
        if cls.code is not None:
            found[int(cls.code)] = cls
        found |= _with_codes(cls)
    return found


_BY_CODE = _with_codes(KafkaError)
_RETRIABLE_CODES = frozenset(
    int(code)
    for code in (
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.BROKER_NOT_AVAILABLE,
    )
)


def is_retriable(code: int) -> bool:
    """True if repeating a request may help after an answer with this error code."""
    return code in _RETRIABLE_CODES


def code_name(code: int) -> str:
    """The name of an error code: `REBALANCE_IN_PROGRESS` for 27, `error 999` for a code that Kafka does not have."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


def error_for(code: int, context: str = "", detail: str | None = None, topics: Iterable[str] = ()) -> KafkaError:
    """The exception for a response's error code.

    `context` says what was being done, `detail` is the broker's own message if it sent one; `topics` is what it was
    about.
    """
    cls = _BY_CODE.get(code)
    name = code_name(code)
    explanation = detail or (cls.hint if cls else "")
    message = f"{context}: " if context else ""
    message += f"{name} ({code})" + (f": {explanation}" if explanation else "")
    if cls is None:
        return (RetriableResponseError if is_retriable(code) else BrokerResponseError)(message, code)
    if cls is TopicAuthorizationError:
        return TopicAuthorizationError(f"{message}: {', '.join(sorted(topics))}" if topics else message, topics)
    return cls(message)
