"""The clients that speak both group protocols: librdkafka, Java's and franz-go, behind one face. No asserts here.

A client joins by either protocol, as a static member or not. A member in a process of its own can be killed.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tests.compat import consumer_members
from tests.compat.conftest import Running
from tests.compat.consumer_members import member_process
from tests.compat.driving import HEARTBEAT_INTERVAL_MS, SESSION_TIMEOUT_MS, Member
from tests.compat.remote import RefusedError, Remote, RemoteClient, start_remote

CLASSIC, CONSUMER = "classic", "consumer"


class Doomed(NamedTuple):
    """A process that joins when it is told to: before, it has started, which takes seconds."""

    join: Callable[[], None]
    kill: Callable[[], None]


class GroupClient(Protocol):
    """A client whose members' group has the name of the topic that they read."""

    def join(self, servers: str, name: str, protocol: str) -> Member: ...

    def join_static(self, servers: str, name: str, instance: str) -> Member:
        """A static member, by the consumer protocol."""
        ...

    def static_process(self, servers: str, name: str, instance: str, folder: Path) -> AbstractContextManager[Doomed]:
        """A process for such a member."""
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
    def static_process(self, servers: str, name: str, instance: str, folder: Path) -> Iterator[Doomed]:
        with member_process(servers, name, folder, group_instance_id=instance) as process:
            yield Doomed(lambda: _tell(process), process.kill)


def _tell(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    process.stdin.write(b"join\n")
    process.stdin.flush()


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
    def static_process(self, servers: str, name: str, instance: str, folder: Path) -> Iterator[Doomed]:
        with start_remote(self._language, folder) as remote:
            with contextlib.suppress(RefusedError):
                remote.ask("start")  # no order, but answered by a program that has started
            yield Doomed(lambda: self._join(remote, servers, name, CONSUMER, instance), remote.kill)

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
