"""A driver's way to the controller of its cluster: it asks by the names of the actor's methods, and hears why not."""

from __future__ import annotations

import logging
from typing import Any, Final

import ray

from actors.controller.by_name import end_controller, namespace
from actors.controller.several_by_name import end_controllers
from actors.links.not_controller import NotControllerError
from actors.runtime.controllers import leading_of, several
from actors.runtime.environment import Clock
from actors.runtime.process import last_line
from actors.runtime.ray_runtime import ClusterError

log = logging.getLogger(__name__)

_LOOKS: Final = {"status", "addresses", "group_status", "view", "outlook", "removal", "in_force", "left_out"}
"""Methods that change nothing: another controller may be asked as well."""
_CHECK_SECONDS: Final = 1.0
_ANSWER_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 30.0
_DIED_SECONDS: Final = 5.0
_AGAIN_SECONDS: Final = 1.0


class ControllerHandle:
    """The controller of the cluster called `cluster`. Errors of its methods are raised as ClusterError.

    If it is one of `several`, another may lead later: that one is found, and asked instead.
    """

    def __init__(self, cluster: str, actor: Any, clock: Clock, *, several: bool = False) -> None:
        self._cluster = cluster
        self._several = several
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
        begun = self._clock.monotonic()
        while True:
            try:
                return self._got(self._method(method).remote(*arguments, **named), within_s)
            except NotControllerError as error:  # it has done nothing
                if self._clock.monotonic() - begun > within_s:
                    raise ClusterError(f"cluster {self._cluster!r}: {last_line(error)}") from None
            except ray.exceptions.RayActorError:
                if method not in _LOOKS or not self._several or self._clock.monotonic() - begun > within_s:
                    raise
            self._find_leading(within_s)

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
            except NotControllerError as error:
                if self._clock.monotonic() - begun > _SILENCE_SECONDS:
                    raise ClusterError(f"cluster {self._cluster!r}: {last_line(error)}") from None
            self._clock.sleep(_AGAIN_SECONDS)
            self._find_leading(_ANSWER_SECONDS)
            ask = self._method(method)

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
        except ray.exceptions.RayError as error:
            if self._several:
                self._find_leading(_CHECK_SECONDS)
                return False
            if not isinstance(error, ray.exceptions.ActorDiedError):
                return False  # it is being restarted
            self._actor = None
            raise ClusterError(
                f"cluster {self._cluster!r} has been ended by `coterie down`, or its controller's node is gone"
            ) from None

    def leave(self) -> None:
        """Ask nothing more. The controller goes on."""
        self._actor = None

    def end(self) -> None:
        """End the controller, and all that it has started. Raises RayError."""
        self._find_leading(_ANSWER_SECONDS)
        actor, self._actor = self._actor, None
        if self._several:
            end_controllers(self._cluster, actor)
        else:
            end_controller(actor)

    def _find_leading(self, within_s: float) -> None:
        """Of several controllers, have the one that leads now. While none does, it stays as it is.

        Raises ClusterError if there is none any more.
        """
        if not self._several:
            return
        try:
            self._actor = leading_of(several(namespace(self._cluster)), within_s)
        except (ConnectionError, ray.exceptions.RayError) as error:
            log.debug("no controller leads: %s", last_line(error))
        except ValueError:
            self._actor = None
            raise ClusterError(f"cluster {self._cluster!r} has been ended by `coterie down`") from None

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
        except NotControllerError:
            raise
        except ray.exceptions.RayTaskError as error:
            raise ClusterError(last_line(error)) from None
