"""Programs in other languages that tests drive: an order is a line of JSON, and so is its answer."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.compat.apache_kafka import QUICK_JAVA, kafka_jars, kafka_tools_jars
from tests.compat.driving import OPERATION_TIMEOUT_S, Member, Records
from tests.compat.peers import HERE, built
from tests.compat.processes import end_process, spawn
from tests.compat.raw import await_topics
from tests.compat.secure import ALLOWED_URLS

TOOLS = "org.apache.kafka.tools"
CONFIGS = f"{TOOLS}.ConfigCommand"
TIMEOUT_S = 2 * OPERATION_TIMEOUT_S


class RefusedError(Exception):
    """The program could not carry out an order; the text is its library's."""


class Remote:
    """A running program. It carries out one order at a time."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self.token = folder / "token"
        """The one file that Kafka's tools may take tokens from."""
        self._log = folder / "log"
        self._lock = threading.Lock()
        with self._log.open("wb") as file:
            self._process = spawn([*command], file)

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """Raises RefusedError, and AssertionError with its log when the program ends or takes too long."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with self._lock, _within(TIMEOUT_S, self._process.kill):
            stdin.write(json.dumps({"do": do, **order}).encode() + b"\n")
            stdin.flush()
            line = stdout.readline()
        assert line, f"{do} ended the program: {self._log.read_text(errors='replace')[-2000:]}"
        answer: dict[str, Any] = json.loads(line)
        if answer.get("error"):
            raise RefusedError(answer["error"])
        return answer

    def kill(self) -> None:
        """SIGKILL: the groups of its members do not hear of it."""
        self._process.kill()

    def close(self) -> None:
        end_process(self._process)


@contextlib.contextmanager
def _within(timeout_s: float, late: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(timeout_s, late)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@contextlib.contextmanager
def start_remote(language: str, folder: Path) -> Iterator[Remote]:
    """Run java, Kafka's own clients and tools, or go, franz-go and sarama. Raises UnavailableError."""
    command = {"java": _java, "go": _go}[language](folder)
    with contextlib.closing(Remote(command, folder)) as remote:
        yield remote


def _java(folder: Path) -> list[str]:
    jars = f"{kafka_jars()}/*:{kafka_tools_jars()}/*"
    sources = sorted(path.name for path in (HERE / "java").glob("*.java"))
    classes = built(HERE / "java", ["javac", "-cp", jars, "-d"], sources)
    options = [*QUICK_JAVA, f"{ALLOWED_URLS}{(folder / 'token').as_uri()}"]
    return ["java", *options, "-cp", f"{classes}:{jars}", "Driven"]


def _go(_: Path) -> list[str]:
    return [str(built(HERE / "goclients", ["go", "build", "-buildvcs=false", "-o"], ["."]))]


# --- Kafka's tools ---


class Printed(NamedTuple):
    """The output of a tool, errors among it, and its exit status."""

    text: str
    status: int


def run_tools(java: Remote, commands: Sequence[Sequence[str]]) -> list[Printed]:
    """Run the commands and return their outputs; a command's first word is the tool's class."""
    answers = [java.ask("tool", words=[*words]) for words in commands]
    return [Printed(answer["text"], answer["status"]) for answer in answers]


# --- clients ---


class RemoteClient:
    """A client library in such a program. `login` has the program's form."""

    def __init__(self, name: str, remote: Remote, login: Mapping[str, Any]) -> None:
        self.name = name
        self._ask = lambda do, **order: remote.ask(do, library=name, login=login, **order)

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        self._ask("create", topic=topic, partitions=partitions)
        await_topics(servers, {topic: partitions})

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        """Produce with the library's defaults: `compression` and `idempotent` are ignored."""
        self._ask("produce", topic=topic, records=[[key.decode(), value.decode()] for key, value in records])

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _RemoteMember(self._ask, group, topic)


class _RemoteMember:
    def __init__(self, ask: Callable[..., dict[str, Any]], group: str, topic: str) -> None:
        self._ask = ask
        self._number = ask("join", group=group, topic=topic)["member"]

    def owned(self) -> frozenset[int]:
        return frozenset(self._ask("look", member=self._number)["owned"] or ())

    def seen(self) -> Records:
        records = self._ask("look", member=self._number)["seen"] or ()
        return [(key.encode(), value.encode()) for key, value in records]

    def commit(self) -> None:
        self._ask("commit", member=self._number)

    def close(self) -> None:
        self._ask("close", member=self._number)
