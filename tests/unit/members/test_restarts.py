"""The pause of a slot before its next start: every row of the table, and their sums."""

from __future__ import annotations

import pytest

from actors.members.pools.restarts import Outcome, Restarts, died


@pytest.mark.parametrize(
    ("outcome", "pauses"),
    [
        (Outcome.AWAY, [0.5, 0.5, 0.5]),
        (Outcome.FAILED, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
        (Outcome.STARTED, [0.0, 0.0]),
        (Outcome.DIED_EARLY, [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]),
        (Outcome.DIED_COUNTED, [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]),
        (Outcome.DIED_LATE, [0.0, 0.0]),
        (Outcome.RENEWED, [0.0, 0.0]),
    ],
)
def test_the_pauses_after_the_same_again(outcome: Outcome, pauses: list[float]) -> None:
    restarts = Restarts()
    found = []
    for _ in pauses:
        restarts.hear(outcome)
        found.append(restarts.pause_s)
    assert found == pauses


@pytest.mark.parametrize("outcome", Outcome)
def test_a_pause_after_failed_starts(outcome: Outcome) -> None:
    """A start alone says nothing of how long the member lives: the pause stays as it was."""
    restarts = Restarts()
    for _ in range(3):
        restarts.hear(Outcome.FAILED)
    restarts.hear(outcome)
    after = {Outcome.AWAY: 0.5, Outcome.FAILED: 4.0, Outcome.DIED_EARLY: 4.0, Outcome.DIED_COUNTED: 1.0}
    assert restarts.pause_s == (0.0 if outcome is Outcome.DIED_LATE else after.get(outcome, 2.0))


@pytest.mark.parametrize("outcome", Outcome)
def test_starts_that_fail_in_a_row(outcome: Outcome) -> None:
    restarts = Restarts()
    for _ in range(3):
        restarts.hear(Outcome.FAILED)
    assert not restarts.given_up
    restarts.hear(outcome)
    assert restarts.given_up == (outcome is Outcome.FAILED)
    begun_anew = outcome in (Outcome.STARTED, Outcome.RENEWED)
    assert (restarts.failed == 0) == begun_anew


@pytest.mark.parametrize(
    ("lived_s", "counted", "renewing", "outcome"),
    [
        (5.0, False, False, Outcome.DIED_EARLY),
        (5.0, True, False, Outcome.DIED_COUNTED),
        (5.1, False, False, Outcome.DIED_LATE),
        (5.1, True, False, Outcome.DIED_LATE),
        (0.0, False, True, Outcome.DIED_LATE),
        (0.0, True, True, Outcome.DIED_LATE),
    ],
)
def test_the_outcome_of_an_end(lived_s: float, counted: bool, renewing: bool, outcome: Outcome) -> None:
    assert died(lived_s, counted=counted, renewing=renewing) is outcome
