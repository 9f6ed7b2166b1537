"""Sends heartbeats to a group's coordinator in the name of members that cannot do so themselves just now."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from actors.client.admin.brokers import Brokers
from actors.client.config import admin_config, security_settings
from actors.client.errors import KafkaError
from actors.members.pools.handling.spec import MemberSpec
from actors.members.pools.watch.stand_in import Membership, StandIn
from actors.runtime.environment import Environment
from actors.runtime.logs import about

log = logging.getLogger(__name__)


class Heartbeats:
    """Heartbeats in a group, over connections of their own, which are made for the first one. Thread-safe.

    They log in as the pool's members do, with what lies on this machine. `spec` says how these consume now.
    """

    def __init__(self, spec: Callable[[], MemberSpec], environment: Environment) -> None:
        self._spec = spec
        self._environment = environment
        self._brokers: Brokers | None = None
        self._settings: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._stand_in = StandIn()
        self._under_way: set[Membership] = set()
        self._closed = False
        self._trouble = ""

    def send(self, member: Membership) -> None:
        """Have a heartbeat sent. It does not wait for the answer; until that has come, no other one goes."""
        with self._lock:
            if self._closed or member in self._under_way:
                return
            spec = self._spec()
            try:
                brokers = self._connected(spec)
            except KafkaError as error:  # a file that is not here, most likely
                self._failed(spec.group_id, error)
                return
            self._under_way.add(member)
        sent = brokers.network.run(self._stand_in.send(brokers, spec, member))
        sent.add_done_callback(partial(self._done, spec.group_id, member))

    def close(self) -> None:
        """Send no more, and close the connections."""
        with self._lock:
            self._closed = True
            brokers, self._brokers = self._brokers, None
        if brokers is not None:
            brokers.close()

    def _connected(self, spec: MemberSpec) -> Brokers:
        """Connections as the spec has them. Raises ConfigurationError."""
        settings = {"bootstrap_servers": spec.bootstrap_servers, **security_settings(spec.options)}
        if self._brokers is not None and settings == self._settings:
            return self._brokers
        made = Brokers(admin_config(settings), self._environment)
        if self._brokers is not None:
            self._brokers.close()
        self._brokers, self._settings = made, settings
        return made

    def _done(self, group_id: str, member: Membership, sent: Future[None]) -> None:
        with self._lock:
            self._under_way.discard(member)
            if sent.cancelled():
                return
            error = sent.exception()
            if error is None:
                self._trouble = ""
            else:
                self._failed(group_id, error)

    def _failed(self, group_id: str, error: BaseException) -> None:
        """Say so, once for each reason in a row."""
        reason = str(error) or type(error).__name__
        if reason != self._trouble and not self._closed:
            self._trouble = reason
            text = "group %s: the pool could not send a heartbeat for a member that is silent: %s"
            log.warning(text, group_id, reason, extra=about(group=group_id))
