"""The README's "Five minutes" as a reader has them: its commands and programs, in its order, on one cluster."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.parquet
import pytest

from tests.ray.support import ROOT, assert_gone, descendants, wait_until
from tests.support.ray_variables import without_ray
from tests.support.readme import blocks, replaced

WARNING = re.compile(r".*\w*warning\b.*", re.IGNORECASE)
ORDERS = {f"order {number}" for number in range(1, 1001)}
INTERRUPTED = 130  # as shells say that Ctrl-C has ended a program
SLOW = 240  # for waits that take seconds on a quiet machine


class Terminal:
    """A program in the foreground of a terminal of its own; what it writes stands in files."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str], name: str) -> None:
        self._out, self._err = folder.parent / f"{name}.out", folder.parent / f"{name}.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            # Ctrl-C is heard even if the tests themselves run in a shell's background.
            self.process = subprocess.Popen(
                ["env", "--default-signal=INT", *command],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
            )

    def shown(self) -> str:
        """Standard output so far."""
        return self._out.read_text()

    def shows(self, text: str) -> None:
        """Wait until it has shown something; it must go on running till then."""
        wait_until(lambda: text in self.shown() or self.process.poll() is not None, SLOW, text)
        assert text in self.shown(), self._err.read_text()[-3000:]

    def ended(self, expected: int = 0) -> str:
        """Standard output, once it has ended, with this exit code, without a warning and without a word of Ray's."""
        code = self.process.wait(SLOW)
        said = self._err.read_text()
        assert code == expected, (self.process.args, code, self.shown()[-1000:], said[-3000:])
        assert WARNING.findall(said) == []
        assert "(raylet)" not in self.shown() + said
        return self.shown()

    def interrupted(self, expected: int = 0) -> None:
        """Ctrl-C, and its end."""
        self.process.send_signal(signal.SIGINT)
        self.ended(expected)


class Reader:
    """Types what the README says, in an empty folder, with its `.venv` activated and Python's warnings on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "here"
        self.folder.mkdir()
        kept = {name: value for name, value in without_ray().items() if not name.startswith("COTERIE_")}
        path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
        self.environment = kept | {"PATH": path, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "default"}
        self.terminals: list[Terminal] = []

    def starts(self, command: str) -> Terminal:
        """Type a command in a terminal that it keeps."""
        self.terminals.append(Terminal(shlex.split(command), self.folder, self.environment, str(len(self.terminals))))
        return self.terminals[-1]

    def types(self, commands: str) -> str:
        """Type commands, and wait for what they show."""
        return self.starts(shlex.join(["bash", "-e", "-o", "pipefail", "-c", commands])).ended()

    def sees(self, command: str) -> str:
        """The output of a command, or nothing: it may fail while something is being replaced."""
        done = subprocess.run(
            shlex.split(command), cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout if done.returncode == 0 else ""

    def writes(self, name: str, code: str) -> None:
        """Make a file."""
        (self.folder / name).write_text(code)


@contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    """A reader who leaves nothing running."""
    reader = Reader(folder)
    try:
        yield reader
    finally:
        family = [each for terminal in reader.terminals for each in descendants(terminal.process.pid)]
        for process in [*(terminal.process for terminal in reader.terminals), *family]:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        for terminal in reader.terminals:
            terminal.process.communicate()
        assert_gone(family)


def rows(shown: str) -> list[list[str]]:
    """The cells of a table, its heading first."""
    return [line.split() for line in shown.splitlines()]


def numbered(shown: str) -> list[list[str]]:
    """A group's table, with 0, 1, … for the members in the order they come in."""
    table = rows(shown)
    members = list(dict.fromkeys(row[6] for row in table[1:]))
    return table[:1] + [[*row[:6], str(members.index(row[6])), *row[7:]] for row in table[1:]]


def owners(shown: str) -> set[str]:
    """The owners of the six partitions; empty while one of them has no owner, or is behind."""
    table = rows(shown)[1:]
    done = len(table) == 6 and all(lag == "0" and member != "-" for *_, lag, member, _, _ in table)
    return {row[6] for row in table} if done else set()


def pid_of(row_id: str, status: str) -> int | None:
    """The process of something active in `coterie status`."""
    return next((int(row[3]) for row in rows(status) if row[1:3] == [row_id, "Active"]), None)


@pytest.mark.timeout(900)  # a cluster, a pool, a Spark session and two dozen commands
def test_the_five_minutes_of_the_readme_come_out_as_it_says(tmp_path: Path) -> None:
    setup, up, topics, consume, describe, status, shipping, archive, reports = (
        block.code for block in blocks("Five minutes")
    )
    with reading(tmp_path) as reader:
        *_, doctor = setup.splitlines()  # the rest of it has been done, or this test would not run
        reader.types(replaced(doctor, {"coterie doctor": "coterie doctor --port 0"}))
        cluster = reader.starts(
            replaced(up, {"--brokers 3": "--brokers 3 --port 0", "--console-port 9080": "--console-port 0"})
        )
        cluster.shows("ready bootstrap.servers=")
        servers = cluster.shown().split()[1].partition("=")[2]
        assert len(servers.split(",")) == 3
        reader.environment["COTERIE_BOOTSTRAP_SERVER"] = servers  # instead of port 9092
        reader.types(topics)

        first, second = reader.starts(consume), reader.starts(consume)
        describe, expected = typed(describe)
        wait_until(lambda: numbered(reader.sees(describe)) == numbered(expected), SLOW, expected)
        assert {*first.shown().splitlines(), *second.shown().splitlines()} == ORDERS
        a_coordinator_dies_and_the_members_stay(reader, describe, status)
        first.interrupted(INTERRUPTED)
        wait_until(lambda: len(owners(reader.sees(describe))) == 1, SLOW, "its partitions to be the other's")
        second.interrupted(INTERRUPTED)

        a_pool_handles_the_orders_and_replaces_a_member(reader, shipping)
        a_spark_job_archives_the_orders(reader, archive)

        changes = {"127.0.0.1:9092": servers.split(",")[0], "timeout=10": f"timeout={SLOW}"}
        reader.writes("reports.py", replaced(reports, changes))
        lines = reader.types("python reports.py").splitlines()
        assert len(lines) == 5
        assert all(re.fullmatch(r"[0-5] \d+ b'customer-\d+' b'order \d+'", line) for line in lines), lines
        cluster.interrupted()


def a_coordinator_dies_and_the_members_stay(reader: Reader, describe: str, status: str) -> None:
    """`kill -9` the process of the group's partition."""
    before = reader.types(describe)
    look, expected = typed(status)
    shown = reader.types(look)
    assert rows(shown)[0] == rows(expected)[0]
    assert [row[2] for row in rows(shown) if row[0] == "broker"] == ["Alive"] * 3
    (partition,) = re.findall(r"__consumer_offsets-\d+", expected)
    victim = pid_of(partition, shown)
    assert victim is not None, shown
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: pid_of(partition, reader.sees(look)) not in (None, victim), SLOW, f"a new {partition}")
    wait_until(lambda: reader.sees(describe) == before, SLOW, before)


def a_pool_handles_the_orders_and_replaces_a_member(reader: Reader, shipping: str) -> None:
    """The program prints its members and waits; one of them is killed, and Enter ends it."""
    command = "coterie groups describe shipping"
    assert f"`{command}`" in shipping
    reader.writes("shipping.py", replaced(shipping, {"timeout_s=60": f"timeout_s={SLOW}"}))
    pool = reader.starts("python shipping.py")
    pool.shows("Enter ends the pool.")
    printed = re.findall(r"^(\d) (\d+) \(.*\) (\d+)$", pool.shown(), re.MULTILINE)
    assert [slot for slot, _, _ in printed] == ["0", "1", "2"], pool.shown()
    assert sum(int(handled) for _, _, handled in printed) >= 1000

    def three() -> set[str]:
        found = owners(reader.sees(command))
        return found if len(found) == 3 else set()

    before = wait_until(three, SLOW, "three owners")
    os.kill(int(printed[0][1]), signal.SIGKILL)
    wait_until(lambda: three() not in (set(), before), SLOW, "a successor")
    history = "coterie groups history shipping"
    wait_until(lambda: "static member replaced" in reader.sees(history), SLOW, "why, and who")
    assert pool.process.stdin is not None
    pool.process.stdin.write(b"\n")
    pool.process.stdin.flush()
    pool.ended()


def a_spark_job_archives_the_orders(reader: Reader, archive: str) -> None:
    """All of them, once, and the group has done with them."""
    reader.writes("archive.py", archive)
    reader.types("python archive.py")
    values = pyarrow.parquet.read_table(reader.folder / "orders-archive")["value"].to_pylist()
    assert sorted(value.decode() for value in values) == sorted(ORDERS)
    shown = rows(reader.types("coterie groups describe archive"))[1:]
    assert [row[5] for row in shown] == ["0"] * 6


def typed(block: str) -> tuple[str, str]:
    """The command after a block's prompt, and what it shows."""
    prompt, _, shown = block.partition("\n")
    return prompt.removeprefix("$ "), shown
