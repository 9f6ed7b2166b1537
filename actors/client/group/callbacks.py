"""Errors that listeners and assignors of the program raise in a rebalance, with what was being done. No I/O."""

from __future__ import annotations

from collections.abc import Iterable

from actors.client.errors import CallbackError, KafkaError
from actors.client.records import TopicPartition

_NAMED = 20


def wrapped(error: Exception, doing: str) -> KafkaError:
    """A CallbackError with `error` as its cause. A KafkaError is returned as it is, as in Kafka, with a note."""
    if isinstance(error, KafkaError):
        error.add_note(f"raised by {doing}")
        return error
    made = CallbackError(f"{doing} raised {error!r}; the rebalance goes on with the next poll")
    made.__cause__ = error
    return made


def named(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as text, `t-0, t-1`; of many only the first."""
    names = [f"{tp.topic}-{tp.partition}" for tp in partitions]
    more = len(names) - _NAMED
    return (", ".join(names[:_NAMED]) or "nothing") + (f" and {more} more" if more > 0 else "")
