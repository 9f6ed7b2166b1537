"""ConsumerActor: the Ray shell of a pool's member, and the handle by which the pool starts and ends it.

Only what a member has committed survives its death. Every call of Ray's that concerns one member is here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import ray

from actors.links.member import MemberAddress
from actors.links.member_process import kind_on_node
from actors.links.member_tls import can_encrypt
from actors.members.logs.capture import captured
from actors.members.member_link import MemberServer
from actors.members.pools.endings import how_it_died
from actors.members.pools.handler_member import MemberLoop, MemberSpec
from actors.members.pools.handling.ending import run_until_terminated
from actors.runtime import ray_inside, ray_session
from actors.runtime.environment import REAL
from actors.runtime.logs import TEXT, formatter
from actors.runtime.process import check_same_version, code_version, error_text, last_line
from actors.runtime.ray_session import RayAwayError, RaySession
from actors.security.acl import is_loopback
from placement.nodes import rack_of_node

log = logging.getLogger(__name__)

_KILL_SECONDS = 3.0


@ray.remote(num_cpus=0, max_restarts=0)
class ConsumerActor:
    """The actor of one member. Its pool stops it, calls it and hears that it lives over a connection (`member_link`).

    Only what it has committed survives its death.
    """

    def __init__(self, spec: MemberSpec, handler: Any, version: str) -> None:
        check_same_version(version)
        lines = logging.StreamHandler()
        lines.setFormatter(formatter(TEXT, {"role": "member", "group": spec.group_id}))
        logging.basicConfig(level=logging.WARNING, handlers=[lines])
        self._ring = captured()
        here = ray.get_runtime_context().get_node_id()
        options = {"group_member_process": kind_on_node("pool", here, spec.version), **spec.options}
        options = {"client_rack": rack_of_node(here) or "", **options}
        self._member = MemberLoop(replace(spec, options=options), handler)

    def listen(self, encrypt: bool) -> MemberAddress:
        """Listen for the pool, and return the address. `encrypt` says that the pool can."""
        host, secret, member = ray.util.get_node_ip_address(), os.urandom(16), self._member
        encrypted = encrypt and can_encrypt() and not is_loopback(host)
        made = MemberServer(
            host,
            secret,
            member.handler.instance,
            member.report,
            member.stop,
            ring=self._ring,
            encrypted=encrypted,
            learn=member.doubts.learn,
            look=member.declared.look,
            join=member.join,
        )
        member.report_to(made.say)
        self._link = made
        node_id = ray.get_runtime_context().get_node_id()
        return MemberAddress(host, made.port, os.getpid(), node_id, secret, encrypted)

    def serve(self, wait: bool) -> None:
        """Consume until the pool has the member stop, or a record cannot be handled.

        With `wait` it sets its handler up, and joins the group when the pool says so. The main thread waits for the
        member's own, and not for Ray (`run_in_main_thread` says why).
        """
        if wait:
            self._member.wait_to_join()
        terminated = run_until_terminated(partial(self._member.run, self._link.tell), self._member.stop)
        self._link.ended()
        if terminated:  # the pool sees the connection end, and starts a successor under the same name
            sys.exit(0)


class StartedActor:
    """An actor that has been asked for: it may wait for resources, start, run or have ended."""

    def __init__(self, actor: Any, session: RaySession) -> None:
        self._actor = actor
        self._session = session
        self._serving: Any = None
        self._listening = actor.listen.remote(can_encrypt())

    def address(self, timeout_s: float) -> MemberAddress | None:
        """The address it listens on; None if it does not within `timeout_s`. Raises RayError if it cannot be made."""
        return self._session.call(self._address, timeout_s)

    def _address(self, timeout_s: float) -> MemberAddress | None:
        ready, _ = ray.wait([self._listening], timeout=timeout_s)
        return ray.get(ready[0]) if ready else None

    def is_placed(self) -> bool:
        """True if Ray has found a node for it. If Ray does not tell, it counts as placed."""
        with contextlib.suppress(Exception):  # it is nobody's promise what a private call of Ray raises
            return self._session.call(ray_inside.is_placed, self._actor)
        return True

    def serve(self, *, wait: bool = False) -> None:
        """Have it join the group and consume; with `wait` it has its handler set up before, and is told to join."""
        self._serving = self._session.call(self._actor.serve.remote, wait)

    def how_it_died(self, timeout_s: float) -> str | None:
        """The end of its process in words; None for an end that no record can cause.

        Raises TimeoutError if Ray does not say within `timeout_s`.
        """
        if self._serving is None:
            return None
        return how_it_died(self._ask, timeout_s, REAL.clock.monotonic, threading.Event().wait)

    def _ask(self, timeout_s: float) -> None:
        with contextlib.suppress(RayAwayError):  # no record ends a Ray
            try:
                self._session.call(ray.get, self._serving, timeout=timeout_s)
            except ray.exceptions.ActorUnavailableError:  # all that this call will ever say
                self._serving = self._session.call(self._actor.__ray_ready__.remote)
                raise

    def kill(self) -> None:
        """End it. If that fails, starting its successor fails, too, and says why."""
        with contextlib.suppress(Exception):  # Ray raises many kinds, and its successor meets them again
            self._session.call_within(_KILL_SECONDS, ray.kill, self._actor)


class ActorStarter:
    """Starts the actors of a pool. Raises what Ray does if it does not know one of the options.

    They are started on the Ray of `session`, and on no other one.
    """

    def __init__(self, handler: Any, options: Mapping[str, Any] | None, session: RaySession | None = None) -> None:
        self._handler = handler
        self._session = session or ray_session.session()
        self._class = ConsumerActor.options(  # type: ignore[attr-defined]
            **{"scheduling_strategy": "SPREAD", **(options or {})}
        )
        asked = ("num_cpus", "num_gpus", "memory", "resources", "label_selector", "accelerator_type")
        named = {name: options[name] for name in asked if name in options} if options else {}
        self.wants = ", ".join(f"{name}={value}" for name, value in named.items()) or "a process"

    def start(self, spec: MemberSpec) -> StartedActor:
        """Ask Ray for an actor. While nothing has room for it, Ray's autoscaler sees that it is wanted."""
        return self._session.call(self._started, spec)

    def _started(self, spec: MemberSpec) -> StartedActor:
        return StartedActor(self._class.remote(spec, self._handler, code_version()), self._session)


def why_not_started(error: Exception) -> str:
    """The reason in one line."""
    if isinstance(error, ray.exceptions.RayError):
        return last_line(error)
    return f"{type(error).__name__}: {' '.join(error_text(error).split())}"
