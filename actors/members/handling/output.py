"""What a member writes: the records that its handler produced, and dead letters. One producer, made when it is needed.

It is idempotent and waits for all in-sync replicas (`acks=all`). Records are queued in the order in which handlers
return, so those of one key, or one partition, are written in the order of their inputs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from actors.client.config import security_settings
from actors.members.handling.context import Output
from actors.members.handling.spec import HandlerFailedError, MemberSpec
from actors.members.handling.work import Sent, Work, content
from actors.runtime.process import error_text

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

        Raises HandlerFailedError if there is no such topic, and what the producer raises.
        """
        topic, partition = work.partition
        if self._spec.dead_letter_topic is None:
            raise HandlerFailedError(topic, partition, work.first, error) from error
        key, value, headers = content(work.records)
        headers += [
            ("coterie.topic", topic.encode()),
            ("coterie.partition", str(partition).encode()),
            ("coterie.offset", str(work.first).encode()),
            ("coterie.error", f"{type(error).__name__}: {error_text(error)}".encode()),
        ]
        with self._lock:
            sent = self._made().send(self._spec.dead_letter_topic, key=key, value=value, headers=headers)
        sent.get(_LETTER_SECONDS)

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


def _fields(output: Output) -> dict[str, Any]:
    given = output._asdict()
    del given["topic"]
    return given
