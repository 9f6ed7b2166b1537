"""Looks up the coordinator of a group: one lookup at a time, with a backoff between two. Sans-IO."""

from __future__ import annotations

from actors.client.error_codes import error_for, is_retriable
from actors.client.errors import AuthenticationError, KafkaError
from actors.client.net.backoff import Backoff
from actors.client.records import Node
from actors.wire.messages import FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0


class CoordinatorLookup:
    """The coordinator of `group_id`, if it is known. The membership machine sends the requests."""

    def __init__(self, group_id: str, backoff: Backoff) -> None:
        self.group_id = group_id
        self.coordinator: Node | None = None
        self.in_flight: int | None = None
        self.not_before_ms = 0
        self._backoff = backoff
        self._failures = 0
        self._losses = 0
        self._error: KafkaError | None = None

    def due(self, now_ms: int) -> bool:
        """True if a lookup has to be sent now."""
        return self._idle and now_ms >= self.not_before_ms

    @property
    def next_ms(self) -> int | None:
        """The time of the next lookup; None while one is in flight, is not needed, or has failed for good."""
        return self.not_before_ms if self._idle else None

    @property
    def _idle(self) -> bool:
        # Credentials may come back while nobody polls, and heartbeats have to go on then.
        final = self._error is not None and not isinstance(self._error, AuthenticationError)
        return self.coordinator is None and self.in_flight is None and not final

    def request(self) -> FindCoordinatorRequest:
        return FindCoordinatorRequest(key=self.group_id, key_type=GROUP, coordinator_keys=[self.group_id])

    def take_error(self) -> KafkaError | None:
        """The error of a lookup that must not be retried, or None. After that lookups begin again."""
        error, self._error = self._error, None
        return error

    def answered(self, response: FindCoordinatorResponse, now_ms: int) -> bool:
        """Take the answer; True if the coordinator is known now. Versions from 4 answer in a list."""
        self.in_flight = None
        answer = response.coordinators[0] if response.coordinators else response
        if answer.error_code == 0:
            self.coordinator = Node(answer.node_id, answer.host, answer.port)
            self._failures = 0
            self._error = None
            return True
        self._failed(
            error_for(answer.error_code, f"looking up the coordinator of group {self.group_id}", answer.error_message),
            now_ms,
            retriable=is_retriable(answer.error_code),
        )
        return False

    def failed(self, error: KafkaError, now_ms: int) -> None:
        """The request could not be sent, or was not answered."""
        self.in_flight = None
        self._failed(error, now_ms, retriable=error.retriable)

    def _failed(self, error: KafkaError, now_ms: int, *, retriable: bool) -> None:
        self._failures += 1
        self.not_before_ms = now_ms + self._backoff.delay_ms(self._failures)
        if not retriable:
            self._error = error

    def lost(self, now_ms: int) -> None:
        """Forget the coordinator. The next lookup is due at once, or after a backoff if it has answered nothing."""
        self.coordinator = None
        self.not_before_ms = now_ms + self._backoff.delay_ms(self._losses)
        self._losses += 1

    def alive(self) -> None:
        """The coordinator has answered, and is the coordinator."""
        self._losses = 0
