"""The ending of a process, by the error that Ray raises of a call. No Ray, and time is a number."""

from __future__ import annotations

import pytest
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

from actors.members.pools.endings import how_it_died

CRASHED = RayError("The actor is dead.\nWorker exit detail: connection error code 2. End of file.")
NODE = RayError("The actor died.\nThe actor died because its node has died. Node Id: 1")
KILLED = RayError("The actor is dead because it was killed by `ray.kill`.")
AWAY = ActorUnavailableError("Socket closed", b"a" * 16)


class Ray:
    """Gives these answers, one to each call, and the last one for ever; an error takes a second."""

    def __init__(self, *answers: Exception | None) -> None:
        self.now = 0.0
        self.answers = list(answers)

    def ask(self, timeout_s: float) -> None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.now += timeout_s if isinstance(answer, GetTimeoutError) else min(timeout_s, 1.0)
        if answer is not None:
            raise answer

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def how(self) -> str | None:
        return how_it_died(self.ask, 5.0, lambda: self.now, self.pause)


@pytest.mark.parametrize(
    "answers", [(GetTimeoutError("not ready"),), (AWAY,), (AWAY, GetTimeoutError("not ready"))], ids=str
)
def test_a_node_that_ended_at_once_was_taken_for_a_record_that_ends_its_process(answers: tuple[Exception, ...]) -> None:
    """Connections end long before Ray knows of it; until then it calls the actor unavailable, or says nothing."""
    ray = Ray(*answers)
    with pytest.raises(TimeoutError, match="Ray has not said within 5 s"):
        ray.how()
    assert 5.0 <= ray.now < 5.2


@pytest.mark.parametrize("end", [NODE, KILLED])
def test_what_no_record_can_do_is_told_also_when_ray_says_it_late(end: Exception) -> None:
    assert Ray(end).how() is None
    assert Ray(AWAY, AWAY, end).how() is None


def test_a_process_that_ended_without_a_word_is_told_also_when_ray_says_it_late() -> None:
    for ray in (Ray(CRASHED), Ray(AWAY, AWAY, CRASHED)):
        how = ray.how()
        assert how is not None
        assert "os._exit" in how
    assert Ray(RayError("out of memory")).how() == "out of memory"


def test_a_call_that_has_returned_is_no_death() -> None:
    assert Ray(None).how() is None
