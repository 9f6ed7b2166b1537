"""Kafka's `kafka-configs` shows and changes the levels of a broker's loggers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from tests.compat.peers import Peer
from tests.compat.remote import CONFIGS, Remote, run_tools
from tests.compat.support import against

HUB = "actors.broker.coordinators.hub"
OFFSETS_PARTITION = "actors.offsets_partition"


class Loggers:
    """The loggers of broker 0, through Kafka's tool."""

    def __init__(self, servers: str, java: Remote) -> None:
        self._servers = servers
        self._java = java

    def run(self, *options: str) -> tuple[bool, str]:
        """Run the tool; True if it succeeds, and its output."""
        command = (CONFIGS, "--bootstrap-server", self._servers, "--entity-type", "broker-loggers")
        (printed,) = run_tools(self._java, [(*command, "--entity-name", "0", *options)])
        return printed.status == 0, printed.text

    def alter(self, *options: str) -> tuple[bool, str]:
        return self.run("--alter", *options)

    def levels(self) -> dict[str, str]:
        _, text = self.run("--describe")
        lines = (line.split()[0] for line in text.splitlines() if "=" in line)
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def loggers(kafka: Peer, java: Remote) -> Iterator[Loggers]:
    made = Loggers(kafka.bootstrap_servers, java)
    with contextlib.ExitStack() as after:
        after.callback(made.alter, "--add-config", "root=INFO")
        after.callback(made.alter, "--delete-config", f"{HUB},{OFFSETS_PARTITION}")
        yield made


@against("coterie")
def test_levels_are_shown_set_and_deleted(loggers: Loggers) -> None:
    assert {"root", HUB, OFFSETS_PARTITION, "coterie.audit"} <= loggers.levels().keys()
    assert set(loggers.levels().values()) == {"INFO"}
    done, _ = loggers.alter("--add-config", f"{HUB}=DEBUG,{OFFSETS_PARTITION}=WARN,root=ERROR")
    assert done
    found = loggers.levels()
    assert (found[HUB], found[OFFSETS_PARTITION], found["root"], found["coterie.audit"]) == (
        "DEBUG", "WARN", "ERROR", "ERROR",
    )  # fmt: skip
    done, _ = loggers.alter("--delete-config", HUB)
    assert done
    assert loggers.levels()[HUB] == "ERROR"


@against("coterie")
@pytest.mark.parametrize("wrong", [("--add-config", f"{HUB}=LOUD"), ("--add-config", "nobody=INFO")])
def test_the_tool_says_what_is_wrong(loggers: Loggers, wrong: tuple[str, str]) -> None:
    before = loggers.levels()
    done, text = loggers.alter(*wrong)
    assert not done
    assert wrong[1].partition("=")[0] in text
    assert loggers.levels() == before
