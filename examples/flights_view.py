"""The demo's live view: who owns what, how far behind the group is, and what has happened."""

from __future__ import annotations

import logging
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from actors.cli.screen import Screen, table_of
from coterie import Admin, Consumer, ConsumerPool, KafkaError, MemberStatus, TopicPartition

_LINES = 8
_PLAIN_SECONDS = 2.0
_COLUMNS = ("member", "pid", "state", "generation", "partitions", "handled", "restarts")


@contextmanager
def terminal_of_our_own(log: Path) -> Iterator[Console]:
    """A console on standard output. All else that is written there or to standard error, or logged, goes to a file.

    So do Ray's messages about processes that die: the demo kills one on purpose.
    """
    console = Console(file=sys.stdout)
    logging.basicConfig(filename=log, level=logging.INFO)
    with log.open("a", buffering=1) as file, redirect_stdout(file), redirect_stderr(file):
        yield console


class View:
    """Redrawn in place on a terminal; a line every two seconds elsewhere."""

    def __init__(self, console: Console, servers: str, pool: ConsumerPool, topic: str) -> None:
        self._console = console
        self._pool = pool
        self._topic = topic
        self._begun = time.monotonic()
        self._events: deque[str] = deque(maxlen=_LINES)
        self._admin = Admin(bootstrap_servers=servers)
        self._consumer = Consumer(bootstrap_servers=servers)
        self._screen = Screen(console)
        self._last_plain = 0.0
        self._state = ""
        self._lag: int | None = None

    def __enter__(self) -> Self:
        self._screen.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.draw()
        self._screen.__exit__(kind, error, trace)
        self._consumer.close()
        self._admin.close()

    def say(self, event: str) -> None:
        """Note something that has happened."""
        line = f"{time.monotonic() - self._begun:5.1f} s  {event}"
        self._events.append(line)
        if not self._screen.is_live:
            self._console.print(line, highlight=False, soft_wrap=True)
        self.draw()

    def lag(self) -> int | None:
        """Records of the topic that the group has not committed yet; None while that is not known."""
        try:
            partitions = [
                TopicPartition(self._topic, p) for p in self._consumer.partitions_for_topic(self._topic) or ()
            ]
            committed = self._admin.list_consumer_group_offsets(self._pool.group_id)
            ends = self._consumer.end_offsets(partitions)  # afterwards: nothing is committed that is not there yet
        except KafkaError:
            return None  # a coordinator that is just starting
        if not partitions:
            return None
        return sum(end - (committed[p].offset if p in committed else 0) for p, end in ends.items())

    def draw(self) -> None:
        """Look at the group and show it."""
        now = time.monotonic()
        if not self._screen.is_live and now - self._last_plain < _PLAIN_SECONDS:
            return
        self._last_plain = now
        self._look()
        members = self._pool.status()
        if self._screen.is_live:
            self._screen.show(
                Group(self._table(members), Text("\n".join(self._events), no_wrap=True, overflow="ellipsis"))
            )
        else:
            owners = " ".join(f"{m.slot}:{len(m.assignment)}" for m in members)
            handled = sum(m.handled for m in members)
            self._console.print(
                f"{now - self._begun:5.1f} s  {self._state:20} lag {self._lag} · handled {handled:,} · "
                f"partitions by member {owners}",
                highlight=False,
                soft_wrap=True,
            )

    def _look(self) -> None:
        self._lag = self.lag()
        try:
            state = self._admin.describe_consumer_groups([self._pool.group_id])[0].state
        except KafkaError:
            return
        if state == "Dead":  # Kafka's word for a group that nobody has joined yet
            state = "waiting for members"
        if state != self._state:
            self._events.append(f"{time.monotonic() - self._begun:5.1f} s  the group is {state}")
        self._state = state

    def _table(self, members: list[MemberStatus]) -> Table:
        title = f"group {self._pool.group_id}: {self._state} · lag {'?' if self._lag is None else f'{self._lag:,}'}"
        table = table_of(_COLUMNS, [self._row(member) for member in members], numbers=("handled", "pid"))
        table.title = title
        return table

    def _row(self, member: MemberStatus) -> dict[str, Any]:
        return {
            "member": member.slot,
            "pid": member.pid,
            "state": member.state,
            "generation": member.generation_id,
            "partitions": " ".join(str(partition) for _, partition in member.assignment),
            "handled": f"{member.handled:,}",
            "restarts": member.restarts,
        }
