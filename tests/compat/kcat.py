"""kcat as a driver: a program, whose output is read."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import threading

from tests.compat.driving import HEARTBEAT_INTERVAL_MS, OPERATION_TIMEOUT_S, SESSION_TIMEOUT_MS, Known, Member, Records
from tests.compat.raw import await_topics, create_topics

_REBALANCED = re.compile(r"% Group \S+ rebalanced .*?: (assigned|revoked): ?(.*)")
_PARTITION = re.compile(r"\[(\d+)\]")


class _KcatMember:
    """kcat prints records on stdout and assignments on stderr; it commits what it printed when it ends."""

    def __init__(self, kcat: list[str], group: str, topic: str) -> None:
        command = [*kcat, "-G", group, "-u", "-f", "%k:%s\n", "-X", "auto.offset.reset=earliest"]
        command += ["-X", f"session.timeout.ms={SESSION_TIMEOUT_MS}"]
        command += ["-X", f"heartbeat.interval.ms={HEARTBEAT_INTERVAL_MS}", topic]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self._records: Records = []
        self._owned: frozenset[int] = frozenset()
        self._complaints: list[str] = []
        self._threads = [
            threading.Thread(target=self._read_records, daemon=True),
            threading.Thread(target=self._read_assignments, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_records(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            key, _, value = line.rstrip(b"\n").partition(b":")
            self._records.append((key, value))

    def _read_assignments(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            line = raw.decode(errors="replace")
            if match := _REBALANCED.search(line):
                numbers = frozenset(map(int, _PARTITION.findall(match[2])))
                self._owned = numbers if match[1] == "assigned" else frozenset()
            elif "ERROR" in line:
                self._complaints.append(line)

    def owned(self) -> frozenset[int]:
        if self._process.poll() is not None:
            raise AssertionError(f"kcat ended with {self._process.returncode}: {self._complaints}")
        return self._owned

    def seen(self) -> Records:
        return list(self._records)

    def commit(self) -> None:
        pass

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(OPERATION_TIMEOUT_S)
        finally:
            self._process.kill()
            for thread in self._threads:
                thread.join(5)
            for stream in (self._process.stdout, self._process.stderr):
                assert stream is not None
                stream.close()


class Kcat(Known):
    name = "kcat"
    servers = "bootstrap.servers"

    def _kcat(self, servers: str, *arguments: str) -> list[str]:
        program = shutil.which("kcat") or shutil.which("kafkacat")
        if program is None:
            raise FileNotFoundError("kcat")
        settings = [word for pair in self.settings(servers).items() for word in ("-X", "=".join(pair))]
        return [program, "-m", "60", *settings, *arguments]

    def create_topic(self, servers: str, topic: str, partitions: int) -> None:
        """kcat knows only auto-creation: asking for a topic's metadata with permission to create it."""
        if partitions != 1:
            create_topics(servers, {topic: partitions})
            return
        self.produce(servers, topic, [], compression="none", idempotent=False)

    def produce(self, servers: str, topic: str, records: Records, *, compression: str, idempotent: bool) -> None:
        command = self._kcat(servers, "-P", "-t", topic, "-K", ":", "-z", compression)
        command += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
        lines = b"".join(b"%s:%s\n" % record for record in records)
        done = subprocess.run(command, input=lines, capture_output=True, timeout=90, check=False)
        if done.returncode or b"ERROR" in done.stderr or b"failed" in done.stderr:
            raise RuntimeError(done.stderr.decode())

    def consume(self, servers: str, topic: str, count: int) -> Records:
        await_topics(servers, {topic: 1})  # it asks once
        command = self._kcat(servers, "-C", "-t", topic, "-o", "beginning", "-c", str(count), "-f", "%k:%s\n", "-q")
        done = subprocess.run(command, capture_output=True, timeout=90, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        pairs = (line.partition(b":") for line in done.stdout.splitlines())
        return [(key, value) for key, _, value in pairs]

    def join(self, servers: str, group: str, topic: str) -> Member:
        return _KcatMember(self._kcat(servers), group, topic)
