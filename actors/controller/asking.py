"""A driver's way to the controller of its cluster: it asks by the names of the actor's methods, and hears why not."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any, Final

from actors.controller.by_name import end_controller, namespace
from actors.controller.driver_ray import (
    ActorDiedError,
    Asked,
    DriverRay,
    FoundActor,
    GetTimeoutError,
    RayActorError,
    RayError,
    RayTaskError,
)
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
_SOON_SECONDS: Final = 0.2


class ControllerHandle:
    """The controller of the cluster called `cluster`. Errors of its methods are raised as ClusterError.

    If it is one of `several`, another may lead later: that one is found, and asked instead.
    """

    def __init__(self, ray: DriverRay, cluster: str, actor: FoundActor, clock: Clock, *, several: bool = False) -> None:
        self._ray = ray
        self._cluster = cluster
        self._several = several
        self._actor: FoundActor | None = actor
        self._clock = clock
        self._checking: Asked | None = None
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
                return self._got(self._asked(method, *arguments, **named), within_s)
            except NotControllerError as error:  # it has done nothing
                if self._clock.monotonic() - begun > within_s:
                    raise ClusterError(f"cluster {self._cluster!r}: {last_line(error)}") from None
            except GetTimeoutError:
                self._find_leading(_CHECK_SECONDS)  # for the next question: its machine may be off
                raise
            except RayActorError:
                if method not in _LOOKS or not self._several or self._clock.monotonic() - begun > within_s:
                    raise
            self._clock.sleep(_SOON_SECONDS)
            self._find_leading(within_s)

    def insist(self, method: str, *arguments: Any) -> Any:
        """As `ask`, and ask the next controller if this one dies meanwhile. Asking twice must do no harm.

        Raises ClusterError also if nobody answers.
        """
        begun = self._clock.monotonic()
        while True:
            try:
                return self._got(self._asked(method, *arguments), _ANSWER_SECONDS)
            except (RayActorError, GetTimeoutError) as error:
                died = isinstance(error, ActorDiedError)  # for good, if it is said again
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

    def check(self) -> bool:
        """True if it has answered, within a second. Raises ClusterError if it is gone for good.

        Several that do not answer may come back: a program that has started them is not to end their cluster.
        """
        if self._several:
            self._known()
            return self._find_leading(_CHECK_SECONDS)
        if self._checking is None:
            self._checking = self._asked("addresses")
        if not self._checking.has_come(_CHECK_SECONDS):
            if self._clock.monotonic() - self._heard > _SILENCE_SECONDS:
                raise ClusterError(
                    f"the controller of cluster {self._cluster!r} has not answered for {_SILENCE_SECONDS:.0f} s: see "
                    "`ray status`, and logs/controller.log in its data directory"
                )
            return False
        answer, self._checking, self._heard = self._checking, None, self._clock.monotonic()
        try:
            answer.answer()
            return True
        except ActorDiedError:
            self._actor = None
            raise ClusterError(
                f"cluster {self._cluster!r} has been ended by `coterie down`, or its controller's node is gone"
            ) from None
        except RayError:
            return False  # it is being restarted

    def leave(self) -> None:
        """Ask nothing more. The controller goes on."""
        self._actor = None

    def end(self) -> None:
        """End the controller, and all that it has started. Raises RayError."""
        actor = self._known()
        with suppress(ClusterError):  # there is none any more, but perhaps what it has started
            self._find_leading(_ANSWER_SECONDS)
        actor, self._actor = self._actor or actor, None
        if self._several:
            end_controllers(self._ray, self._cluster, actor)
        else:
            end_controller(actor)

    def _find_leading(self, within_s: float) -> bool:
        """Of several controllers, have the one that leads now. While none does, it stays as it is: returns False.

        Raises ClusterError if there is none any more.
        """
        if not self._several or self._actor is None:
            return False
        try:
            self._actor = leading_of(self._ray, several(self._ray, namespace(self._cluster)), within_s, self._clock)
            return True
        except (ConnectionError, RayError) as error:
            log.debug("no controller leads: %s", last_line(error))
            return False
        except ValueError:
            self._actor = None
            raise ClusterError(f"cluster {self._cluster!r} has been ended by `coterie down`") from None

    def _known(self) -> FoundActor:
        if self._actor is None:
            raise ClusterError(f"cluster {self._cluster!r} has ended, or this program has left it")
        return self._actor

    def _asked(self, method: str, *arguments: Any, **named: Any) -> Asked:
        actor = self._known()
        if not actor.has(method):  # Ray brings the methods of the process that started it
            raise ClusterError(
                f"the controller of cluster {self._cluster!r} was first started by a release that cannot do this, and "
                "its commands stay those until the cluster is stopped and started"
            )
        return actor.ask(method, *arguments, **named)

    def _got(self, asked: Asked, within_s: float) -> Any:
        try:
            return asked.answer(within_s)
        except RayTaskError as error:
            if self._several and isinstance(error, NotControllerError):  # an error of Ray's is one of its cause, too
                raise
            raise ClusterError(last_line(error)) from None
