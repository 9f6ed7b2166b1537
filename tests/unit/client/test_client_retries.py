"""Attempts until a deadline, with a clock and a backoff of the test's."""

from __future__ import annotations

import pytest

from actors.client.errors import IllegalStateError, KafkaConnectionError, KafkaError
from actors.client.net.backoff import Backoff
from actors.client.net.retries import Retries


class Attempts:
    """Each takes `took_ms` of a clock that stands still meanwhile; these are the errors before the first success."""

    def __init__(self, *errors: KafkaError, took_ms: int = 0) -> None:
        self.errors = list(errors)
        self.took_ms = took_ms
        self.now_ms = 0
        self.count = 0

    async def __call__(self) -> str:
        self.count += 1
        self.now_ms += self.took_ms
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def retries(self, deadline_ms: int) -> Retries:
        return Retries(Backoff(1, 4), lambda: self.now_ms, deadline_ms)


async def test_retriable_errors_are_retried_until_it_succeeds() -> None:
    attempts = Attempts(KafkaConnectionError(), KafkaConnectionError())
    assert await attempts.retries(1_000).until_done(attempts) == "done"
    assert attempts.count == 3


async def test_an_error_that_is_not_retriable_is_raised_at_once() -> None:
    attempts = Attempts(IllegalStateError("no"))
    with pytest.raises(IllegalStateError, match="no"):
        await attempts.retries(1_000).until_done(attempts)
    assert attempts.count == 1


async def test_no_attempt_begins_at_the_deadline_and_the_last_error_is_raised() -> None:
    attempts = Attempts(*(KafkaConnectionError(str(number)) for number in range(9)), took_ms=10)
    with pytest.raises(KafkaConnectionError, match="2"):
        await attempts.retries(30 + 4).until_done(attempts)
    assert attempts.count == 3, "the pauses are 1, 2 and 4 ms, and after the third attempt that reaches the deadline"


async def test_with_the_last_pause_cut_short_there_is_an_attempt_at_the_deadline() -> None:
    attempts = Attempts()
    retries = attempts.retries(3)
    attempts.now_ms = 2
    assert await retries.pause_to_deadline()
    attempts.now_ms = 3
    assert not await retries.pause_to_deadline()


async def test_only_things_with_retriable_errors_are_asked_for_again() -> None:
    asked: list[list[str]] = []

    async def ask(names: list[str]) -> dict[str, int | KafkaError]:
        asked.append(names)
        known: dict[str, int | KafkaError] = {"a": 1, "b": KafkaConnectionError(), "c": IllegalStateError()}
        if len(asked) > 1:
            known["b"] = 2
        return {name: known[name] for name in names}

    outcomes = await Attempts().retries(1_000).until_each_done(["a", "b", "a", "c"], ask)
    assert asked == [["a", "b", "c"], ["b"]]
    assert (outcomes["a"], outcomes["b"]) == (1, 2)
    assert isinstance(outcomes["c"], IllegalStateError)


async def test_what_stays_retriable_until_the_deadline_has_its_error_as_outcome() -> None:
    attempts = Attempts()

    async def ask(names: list[str]) -> dict[str, KafkaError]:
        attempts.now_ms += 10
        return dict.fromkeys(names, KafkaConnectionError(f"at {attempts.now_ms}"))

    outcomes = await attempts.retries(15).until_each_done(["a"], ask)
    assert str(outcomes["a"]) == "at 20"
