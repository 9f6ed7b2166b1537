"""One line of an error of Ray's: the reason."""

from __future__ import annotations

from ray.core.generated.common_pb2 import ActorDiedErrorContext
from ray.exceptions import ActorDiedError

from actors.runtime.process import last_line


def test_an_actor_that_never_ran_has_the_reason_for_it() -> None:
    reason = "The actor died because its node has died."
    error = ActorDiedError(ActorDiedErrorContext(actor_id=bytes(16), error_message=reason, never_started=True))
    assert "never ran" in str(error)
    assert last_line(error) == reason


def test_an_error_without_words_has_the_name_of_its_class() -> None:
    assert last_line(TimeoutError()) == "TimeoutError"
