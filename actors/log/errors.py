"""The errors of logs and data directories. Those that clients are told carry Kafka's codes."""

from collections.abc import Sequence
from typing import Final

from actors import CoterieError

OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
MESSAGE_TOO_LARGE: Final = 10
RECORD_LIST_TOO_LARGE: Final = 18
INVALID_TIMESTAMP: Final = 32
UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
POLICY_VIOLATION: Final = 44
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
INVALID_PRODUCER_EPOCH: Final = 47
KAFKA_STORAGE_ERROR: Final = 56
FENCED_LEADER_EPOCH: Final = 74
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
INVALID_RECORD: Final = 87


class LogError(CoterieError):
    """A refused operation. `error_code` is the code of Kafka's that a client gets."""

    def __init__(self, error_code: int, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code


class CorruptBatchError(LogError):
    """Bytes that are not a whole, undamaged record batch (CORRUPT_MESSAGE)."""

    def __init__(self, message: str) -> None:
        super().__init__(CORRUPT_MESSAGE, message)


class RefusedRecordsError(LogError):
    """A batch with records that this log does not take; `record_errors` names them by their index in the batch."""

    def __init__(self, error_code: int, record_count: int, record_errors: Sequence[tuple[int, str]]) -> None:
        index, why = record_errors[0]
        super().__init__(
            error_code, f"{len(record_errors)} of {record_count} records are refused, number {index}: {why}"
        )
        self.record_errors = record_errors


class FetchOffsetOutOfRange(LogError):  # noqa: N818 - named after Kafka's error
    """A read before the log start or after the log end (OFFSET_OUT_OF_RANGE)."""

    def __init__(self, message: str) -> None:
        super().__init__(OFFSET_OUT_OF_RANGE, message)


class StorageError(LogError):
    """The disk is full or fails, or the log was closed (KAFKA_STORAGE_ERROR)."""

    def __init__(self, message: str) -> None:
        super().__init__(KAFKA_STORAGE_ERROR, message)


class LogConfigError(CoterieError, ValueError):
    """An invalid topic setting. The message names key and value."""


class DataDirError(CoterieError):
    """A data directory that cannot be used: the message names it, what was found and what was expected."""
