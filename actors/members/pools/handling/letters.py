"""Dead letters: a record that could not be handled, where it came from, and why. No I/O.

A letter is longer than its record, so it may exceed a limit that the record kept to: the topic's `max.message.bytes`,
or the producer's `max_request_size`. Then it is tried shorter: what is said of the record goes before anything of the
record itself does, which is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from actors import CoterieError
from actors.client.errors import KafkaError
from actors.client.records import TopicPartition
from actors.members.pools.handling.work import Work, content
from actors.runtime.process import error_text
from actors.wire.errors import ErrorCode

ERROR_BYTES: Final = 1_000
"""The most bytes of an error's text in a letter that is too large with the whole text."""
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class DeadLetterError(CoterieError):
    """A record could not be handled, and its dead letter could not be written either."""

    def __init__(self, text: str, place: TopicPartition, offset: int) -> None:
        super().__init__(text)
        self.topic, self.partition = place
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), TopicPartition(self.topic, self.partition), self.offset))


def letters(work: Work, error: BaseException) -> Iterator[dict[str, Any]]:
    """The letter of a single record as arguments of `Producer.send`, and then shorter ones, down to the record."""
    key, value, headers = content(work.records)
    topic, partition = work.partition
    place = [
        ("coterie.topic", topic.encode()),
        ("coterie.partition", str(partition).encode()),
        ("coterie.offset", str(work.first).encode()),
    ]
    why = _why(error).encode()
    texts = [why, _cut(why)] if len(why) > ERROR_BYTES else [why]
    for said in (*([*place, ("coterie.error", text)] for text in texts), place, []):
        yield {"key": key, "value": value, "headers": [*headers, *said]}


def is_too_large(error: Exception) -> bool:
    """True if the letter was refused for its size, here or by the broker."""
    return isinstance(error, KafkaError) and error.code in _TOO_LARGE


def not_written(work: Work, dead_letter_topic: str, refused: Exception, error: BaseException) -> DeadLetterError:
    """The error of a letter that could not be written."""
    topic, partition = work.partition
    what = f"{type(refused).__name__}: {error_text(refused)}"
    if is_too_large(refused):
        what += (
            f"; not even the record alone fits: raise max.message.bytes of {dead_letter_topic}, or "
            "max_request_size, buffer_memory or compression_type in producer_options"
        )
    return DeadLetterError(
        f"the dead letter of {topic}-{partition} offset {work.first} cannot be written to {dead_letter_topic}: {what}; "
        f"the handler had failed with {_why(error)[:ERROR_BYTES]}",
        work.partition,
        work.first,
    )


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {error_text(error)}"


def _cut(text: bytes) -> bytes:
    return text[:ERROR_BYTES].decode(errors="ignore").encode() + "…".encode()
