"""A driver's way to the controller of its cluster: it asks by the names of the actor's methods, and hears why not."""

from __future__ import annotations

from typing import Any, Final

import ray

from actors.controller.by_name import end_controller
from actors.runtime.environment import Clock
from actors.runtime.process import last_line
from actors.runtime.ray_runtime import ClusterError

_CHECK_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 30.0
_DIED_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 1.0


class ControllerHandle:
    """The controller of the cluster called `cluster`. Errors of its methods are raised as ClusterError."""

    def __init__(self, cluster: str, actor: Any, clock: Clock) -> None:
        self._cluster = cluster
        self._actor = actor
        self._clock = clock
        self._checking: Any = None
        self._heard = clock.monotonic()

    @property
    def is_known(self) -> bool:
        """False once it was left or ended, or is known to be gone for good."""
        return self._actor is not None

    def ask(self, method: str, *arguments: Any, within_s: float = _ANSWER_SECONDS, **named: Any) -> Any:
        """The result of a method. Raises ClusterError, and Ray's errors if there is no answer within `within_s`."""
        return self._got(self._method(method).remote(*arguments, **named), within_s)

    def insist(self, method: str, *arguments: Any) -> Any:
        """As `ask`, and ask the next controller if this one dies meanwhile. Asking twice must do no harm.

        Raises ClusterError also if nobody answers.
        """
        ask = self._method(method)
        begun = self._clock.monotonic()
        while True:
            try:
                return self._got(ask.remote(*arguments), _ANSWER_SECONDS)
            except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as error:
                died = isinstance(error, ray.exceptions.ActorDiedError)  # for good, if it is said again
                if self._clock.monotonic() - begun > (_DIED_SECONDS if died else _SILENCE_SECONDS):
                    raise ClusterError(
                        f"the controller of cluster {self._cluster!r} does not answer ({type(error).__name__}): what "
                        "has begun goes on when it is there again"
                    ) from None
            self._clock.sleep(_AGAIN_SECONDS)

    def check(self) -> bool:
        """True if it has answered, within a second. Raises ClusterError if it is gone for good."""
        if self._checking is None:
            self._checking = self._method("addresses").remote()
        done, _ = ray.wait([self._checking], timeout=_CHECK_SECONDS)
        if not done:
            if self._clock.monotonic() - self._heard > _SILENCE_SECONDS:
                raise ClusterError(
                    f"the controller of cluster {self._cluster!r} has not answered for {_SILENCE_SECONDS:.0f} s: see "
                    "`ray status`, and logs/controller.log in its data directory"
                )
            return False
        answer, self._checking, self._heard = self._checking, None, self._clock.monotonic()
        try:
            ray.get(answer)
            return True
        except ray.exceptions.ActorDiedError:
            self._actor = None
            raise ClusterError(
                f"cluster {self._cluster!r} has been ended by `coterie down`, or its controller's node is gone"
            ) from None
        except ray.exceptions.RayError:
            return False  # it is being restarted

    def leave(self) -> None:
        """Ask nothing more. The controller goes on."""
        self._actor = None

    def end(self) -> None:
        """End the controller, and all that it has started. Raises RayError."""
        actor, self._actor = self._actor, None
        end_controller(actor)

    def _method(self, name: str) -> Any:
        if self._actor is None:
            raise ClusterError(f"cluster {self._cluster!r} has ended, or this program has left it")
        method = getattr(self._actor, name, None)
        if method is None:  # Ray brings the methods of the process that started it
            raise ClusterError(
                f"the controller of cluster {self._cluster!r} was first started by a release that cannot do this, and "
                "its commands stay those until the cluster is stopped and started"
            )
        return method

    @staticmethod
    def _got(ref: Any, within_s: float) -> Any:
        try:
            return ray.get(ref, timeout=within_s)
        except ray.exceptions.RayTaskError as error:
            raise ClusterError(last_line(error)) from None
