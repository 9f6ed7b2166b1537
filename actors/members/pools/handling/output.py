"""The records that a member writes: output of its handler, and dead letters. One producer, made when it is needed.

It is idempotent and waits for all in-sync replicas (`acks=all`). Records are queued in the order in which handlers
return, so those of one key, or one partition, are written in the order of their inputs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any

from actors.client.config import security_settings
from actors.members.pools.handling.context import Output
from actors.members.pools.handling.letters import is_too_large, letters, not_written
from actors.members.pools.handling.spec import HandlerFailedError, MemberSpec
from actors.members.pools.handling.work import Sent, Work

log = logging.getLogger(__name__)

_LETTER_SECONDS = 60


class Writer:
    """Sends a member's outputs and dead letters; thread-safe."""

    def __init__(self, spec: MemberSpec, make_producer: Callable[..., Any]) -> None:
        self._spec = spec
        self._make_producer = make_producer
        self._producer: Any = None
        self._lock = threading.Lock()

    def send(self, outputs: Sequence[Output]) -> list[Sent]:
        """Queue the records in their order. Raises what the producer's `send` raises."""
        with self._lock:
            return [self._made().send(each.topic, **_fields(each)) for each in outputs]

    def dead_letter(self, work: Work, error: Exception) -> None:
        """Write a record that cannot be handled to the dead-letter topic, and wait until it is there.

        Raises HandlerFailedError if there is no such topic, and DeadLetterError if it cannot be written.
        """
        if (topic := self._spec.dead_letter_topic) is None:
            raise HandlerFailedError(*work.partition, work.first, error) from error
        refused: Exception | None = None
        for letter in letters(work, error):
            refused = self._refusal(topic, letter)
            if refused is None:
                return
            if not is_too_large(refused):
                break
            _log_too_large(work, topic, refused)
        assert refused is not None
        raise not_written(work, topic, refused, error) from refused

    def _refusal(self, topic: str, letter: dict[str, Any]) -> Exception | None:
        """Write the letter. Returns why that could not be done."""
        try:
            with self._lock:
                sent = self._made().send(topic, **letter)
            sent.get(_LETTER_SECONDS)
        except Exception as error:  # the user's partitioner, for example, may raise anything
            return error
        return None

    def close(self) -> None:
        """Deliver what was sent, and close."""
        if self._producer is not None:
            self._producer.close()

    def _made(self) -> Any:
        if self._producer is None:
            self._producer = self._make_producer(
                bootstrap_servers=self._spec.bootstrap_servers,
                **self._spec.producer_options,
                acks="all",
                enable_idempotence=True,
                **security_settings(self._spec.options),
            )
        return self._producer


def _log_too_large(work: Work, topic: str, refused: Exception) -> None:
    log.warning(
        "the dead letter of %s-%d offset %d is too large for %s: %s", *work.partition, work.first, topic, refused
    )


def _fields(output: Output) -> dict[str, Any]:
    given = output._asdict()
    del given["topic"]
    return given
