"""The errors of logs and data directories. Those of batches are in actors/records/errors.py, with Kafka's codes."""

from actors import CoterieError
from actors.records.errors import KAFKA_STORAGE_ERROR, OFFSET_OUT_OF_RANGE, LogError


class FetchOffsetOutOfRange(LogError):  # noqa: N818 - named after Kafka's error
    """A read before the log start or after the log end (OFFSET_OUT_OF_RANGE)."""

    def __init__(self, message: str) -> None:
        super().__init__(OFFSET_OUT_OF_RANGE, message)


class StorageError(LogError):
    """The disk is full or fails, or the log was closed (KAFKA_STORAGE_ERROR)."""

    def __init__(self, message: str) -> None:
        super().__init__(KAFKA_STORAGE_ERROR, message)


class DataDirError(CoterieError):
    """A data directory that cannot be used: the message names it, what was found and what was expected."""
