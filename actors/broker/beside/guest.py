"""The contract between a guest and its host. No I/O, no clock: a guest is driven by calls that carry the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from actors.coordinator.turn import Now

Q = TypeVar("Q", contravariant=True)
"""The questions a guest is asked."""
A = TypeVar("A")
"""Its answers."""
R = TypeVar("R")
"""Its records."""


@dataclass(frozen=True, slots=True)
class Place:
    """Beside which log a guest lives: a partition that this broker leads, and at which leader epoch it does."""

    topic: str
    topic_id: bytes
    index: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class Outcome(Generic[A, R]):
    """The result of a call of a guest."""

    answer: A | None = None
    records: Sequence[R] = ()
    """They are appended together, with all others of the same turn of the loop."""
    waits: bool = True
    """True if the answer depends on the records: then it leaves when they have committed."""
    wakes: bool = False
    """True if fetches that wait at the partition are to try again."""


NOTHING: Outcome[Any, Any] = Outcome()


class Guest(Protocol[Q, A, R]):
    """A machine that lives beside one partition's log for as long as a broker leads that partition.

    Its durable state is changed by `replay` alone, so that the state partition's log always gives the same. All else
    that it believes is live state: changes whose records have not committed yet, deadlines, who holds what.
    """

    def replay(self, record: R) -> None:
        """A record of the log, at a load, or one of its own that has committed."""

    def loaded(self, now: Now) -> None:
        """All of the log has been replayed, and has committed. Called once, before anything but `replay`."""

    def ask(self, question: Q, now: Now) -> Outcome[A, R]:
        """A request, or a fetch, asks something."""

    def next_due_ms(self) -> int | None:
        """The time at which `on_time` is wanted next (monotonic); None: not before something else happens."""

    def on_time(self, now: Now) -> Outcome[A, R]:
        """It is `next_due_ms`. Nobody gets the answer."""

    def refused(self, records: Sequence[R], now: Now) -> None:
        """These records of one outcome will never be in the log: take back what was believed of them.

        Called for the newest outcome first. All that was appended before stays: only records of one turn are refused.
        """


class Codec(Protocol[R]):
    """The form of a guest's records in the log."""

    def encode(self, record: R) -> tuple[bytes, bytes | None]:
        """Key and value."""

    def decode(self, key: bytes, value: bytes | None) -> R:
        """The inverse. Raises ValueError."""


@dataclass(frozen=True, slots=True)
class GuestKind:
    """A kind of guest. One guest of a kind lives beside a partition, once somebody has asked for it there."""

    name: str
    topic: str
    """The internal topic whose partitions have the state of these guests."""
    make: Callable[[Place], Guest[Any, Any, Any]]
    codec: Codec[Any]
    configs: Mapping[str, str] = field(default_factory=dict)
    """The settings with which the topic is made."""
    write_timeout_ms: int = 5000
    """After this time an answer that waits for its records is COORDINATOR_NOT_AVAILABLE."""
