"""Kafka's own command line tools, all calls of a test in one JVM."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from tests.compat.peers import HERE, kafka_jars, kafka_tools_jars

TIMEOUT_S = 200
TOOLS = "org.apache.kafka.tools"

_ENDED = re.compile(r"^--- ended with (-?\d+)\n", re.MULTILINE)


class Printed(NamedTuple):
    """What a tool printed, errors among it, and its exit status."""

    text: str
    status: int


def run_tools(commands: Sequence[Sequence[str]]) -> list[Printed]:
    """What each command printed; its first word is the tool's class. Raises AssertionError if the JVM ends before."""
    classpath = f"{kafka_jars()}/*:{kafka_tools_jars()}/*"
    java = ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", classpath, str(HERE / "KafkaTools.java")]
    lines = "".join("\t".join(command) + "\n" for command in commands)
    done = subprocess.run(java, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    *pieces, rest = _ENDED.split(done.stdout)
    assert len(pieces) == 2 * len(commands), f"the JVM ended with {done.returncode}: {rest}{done.stderr}"
    return [Printed(text, int(status)) for text, status in zip(pieces[::2], pieces[1::2], strict=True)]
