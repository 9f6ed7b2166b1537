"""The clients that speak both group protocols: librdkafka, Java's and franz-go, behind one face. No asserts here.

A client joins by either protocol, as a static member or not. A member in a process of its own can be killed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from tests.compat import consumer_members
from tests.compat.conftest import Running
from tests.compat.consumer_members import member_process
from tests.compat.driving import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Member
from tests.compat.remote import Remote, RemoteClient, start_remote

CLASSIC, CONSUMER = "classic", "consumer"
Kill = Callable[[], None]


class GroupClient(Protocol):
    """A client whose members' group has the name of the topic that they read."""

    def join(self, servers: str, name: str, protocol: str) -> Member: ...

    def join_static(self, servers: str, name: str, instance: str) -> Member:
        """A static member, by the consumer protocol."""
        ...

    def static_process(self, servers: str, name: str, instance: str, folder: Path) -> AbstractContextManager[Kill]:
        """The same in a process of its own; what is given kills it."""
        ...


class Librdkafka:
    """confluent-kafka, whose members are threads of this process."""

    def join(self, servers: str, name: str, protocol: str) -> Member:
        of_the_member = {"session_timeout_ms": SESSION_TIMEOUT_MS, "heartbeat_interval_ms": HEARTBEAT_INTERVAL_MS}
        settings: dict[str, Any] = of_the_member if protocol == CLASSIC else {}
        return consumer_members.Member(servers, name, name, group_protocol=protocol, **settings)

    def join_static(self, servers: str, name: str, instance: str) -> Member:
        return consumer_members.Member(servers, name, name, group_instance_id=instance)

    @contextlib.contextmanager
    def static_process(self, servers: str, name: str, instance: str, folder: Path) -> Iterator[Kill]:
        with member_process(servers, name, group_instance_id=instance) as process:
            yield process.kill


Login = Callable[[str, str, str | None], dict[str, Any]]
"""The servers, the protocol, and the instance's id, as a program takes them."""


class Driven:
    """A client in a program of another language."""

    def __init__(self, name: str, language: str, remotes: Running[Remote], login: Login) -> None:
        self._name = name
        self._language = language
        self._remotes = remotes
        self._login = login

    def join(self, servers: str, name: str, protocol: str) -> Member:
        return self._join(self._remotes.get(self._language), servers, name, protocol)

    def join_static(self, servers: str, name: str, instance: str) -> Member:
        return self._join(self._remotes.get(self._language), servers, name, CONSUMER, instance)

    @contextlib.contextmanager
    def static_process(self, servers: str, name: str, instance: str, folder: Path) -> Iterator[Kill]:
        with start_remote(self._language, folder) as remote:
            self._join(remote, servers, name, CONSUMER, instance)
            yield remote.kill

    def _join(self, remote: Remote, servers: str, name: str, protocol: str, instance: str | None = None) -> Member:
        client = RemoteClient(self._name, remote, self._login(servers, protocol, instance))
        return client.join(servers, name, name)


def _java(servers: str, protocol: str, instance: str | None) -> dict[str, Any]:
    static = {"group.instance.id": instance} if instance else {}
    return {"bootstrap.servers": servers, "group.protocol": protocol, **static}


def _go(servers: str, protocol: str, instance: str | None) -> dict[str, Any]:
    return {"Servers": servers, "Protocol": protocol, "Instance": instance or ""}


GROUP_CLIENTS: dict[str, Callable[[Running[Remote]], GroupClient]] = {
    "confluent-kafka": lambda _: Librdkafka(),
    "java": lambda remotes: Driven("java", "java", remotes, _java),
    "franz-go": lambda remotes: Driven("franz-go", "go", remotes, _go),
}
