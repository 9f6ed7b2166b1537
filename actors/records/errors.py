"""The errors of record batches and logs, with the codes of Kafka's that clients are told."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from actors import CoterieError

OFFSET_OUT_OF_RANGE: Final = 1
CORRUPT_MESSAGE: Final = 2
MESSAGE_TOO_LARGE: Final = 10
RECORD_LIST_TOO_LARGE: Final = 18
INVALID_TIMESTAMP: Final = 32
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


class OverBoundsError(CorruptBatchError):
    """A batch that holds more bytes, records or headers than its reader takes."""


class RefusedRecordsError(LogError):
    """A batch with records that this log does not take; `record_errors` names them by their index in the batch."""

    def __init__(self, error_code: int, record_count: int, record_errors: Sequence[tuple[int, str]]) -> None:
        index, why = record_errors[0]
        super().__init__(
            error_code, f"{len(record_errors)} of {record_count} records are refused, number {index}: {why}"
        )
        self.record_errors = record_errors


class Refusal(NamedTuple):
    """A LogError as data, for another thread: an exception keeps alive the frames that it passed."""

    error_code: int
    text: str
    record_errors: Sequence[tuple[int, str]] = ()

    @classmethod
    def of(cls, error: LogError) -> "Refusal":
        return cls(error.error_code, str(error), error.record_errors if isinstance(error, RefusedRecordsError) else ())
