"""Helpers that the compat tests share: the choice of broker, waiting with a deadline, and data to send."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from tests.compat.peers import ROOT
from tests.support.waiting import wait_until as wait_until

T = TypeVar("T")

ONE_PROCESS = pytest.mark.one_process
"""Of modules whose tests need a Coterie, but neither its processes nor its files: the plugin's cluster is theirs."""

# For tests that hold on to a coordinator: one that a slow machine stops for a moment is not replaced.
PATIENT = {
    "coterie.shard.silence.ms": "10000",
    "coterie.monitor.interval.ms": "1000",
    "coterie.metrics.port": "0",
}


def against(*kinds: str) -> pytest.MarkDecorator:
    """Run a test once against each of these kinds of broker (kfake, kafka, coterie)."""
    return pytest.mark.parametrize("kafka", kinds, indirect=True)


def numbered_records(count: int, start: int = 0) -> list[tuple[bytes, bytes]]:
    """Keys and values that compress, are told apart, and spread over partitions."""
    return [(b"key-%05d" % i, b"value-%05d " % i + b"abcdefgh" * 8) for i in range(start, start + count)]


def in_subprocess(function: Callable[..., object], *arguments: str) -> Any:
    """Call a module's function in another process and return its JSON-able result.

    For calls into librdkafka that may end the whole process (list_consumer_group_offsets does, in 2.16.1, when
    the group answers 15 or 16). Raises AssertionError with the process's stderr when it does not end well.
    """
    call = f"import json, {function.__module__} as m; print(json.dumps(m.{function.__name__}(*{arguments!r})))"
    command = [sys.executable, "-W", "ignore", "-c", call]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, f"{function.__name__} ended with {done.returncode}: {done.stderr[-1500:]}"
    return json.loads(done.stdout.splitlines()[-1])
