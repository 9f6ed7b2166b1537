"""The priority of a process over the others of its machine, with and without the right to ask for it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from actors.cli import doctor
from actors.cli.doctor import OK, WARNING

_CHILD = """
import json, os, sys, threading, time
from pathlib import Path
from actors.runtime.priority import ask

def session():
    group = Path("/proc/self/autogroup")
    return [os.getsid(0), group.read_text().strip() if group.exists() else None]

more = threading.Event()
threading.Thread(target=more.wait, daemon=True).start()
before = session()
got = ask(int(sys.argv[1]))
print("asked", flush=True)
sys.stdin.readline()
while sys.argv[2] and not session()[1].endswith(sys.argv[2]):
    time.sleep(0.01)
threads = [os.getpriority(os.PRIO_PROCESS, int(each)) for each in os.listdir("/proc/self/task")]
told = got and [got.niceness, got.problem]
print(json.dumps({"got": told, "threads": threads, "before": before, "after": session(), "pid": os.getpid()}))
"""
_PREFERRED = -5


def child(niceness: int, awaited: str = "", under: Sequence[str] = ()) -> subprocess.Popen[str]:
    """A process that asks, and then waits for a line before it says what it has."""
    process = subprocess.Popen(
        [*under, sys.executable, "-c", _CHILD, str(niceness), awaited],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # as Ray starts workers, each the first of a group
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asked\n"
    return process


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate("go on\n", timeout=30)
    found: dict[str, Any] = json.loads(out)
    return found


def without(*capabilities: str) -> list[str]:
    """The prefix by which a command loses these capabilities; empty where this user has none anyway."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("there is no setpriv")
    return ["setpriv", "--bounding-set", ",".join(f"-{each}" for each in capabilities)]


def needs_rights() -> None:
    if doctor.priority().status != OK:
        pytest.skip("this user may take no priority")


def test_who_may_gets_it_for_all_threads_and_a_session_of_its_own() -> None:
    needs_rights()
    found = said(child(_PREFERRED))
    assert found["got"] == [_PREFERRED, None]
    assert set(found["threads"]) == {_PREFERRED}
    if found["before"][1] is not None:
        assert found["after"][0] == found["pid"] != found["before"][0]
        assert found["after"][1].endswith(f"nice {_PREFERRED}")


def test_who_may_not_stays_as_it_is_and_says_why() -> None:
    found = said(child(_PREFERRED, under=without("sys_nice")))
    assert found["got"] == [os.getpriority(os.PRIO_PROCESS, 0), "niceness -5 was not to be had: Permission denied"]
    assert found["after"] == found["before"]


def test_who_asks_for_nothing_stays_as_it_is() -> None:
    found = said(child(0))
    assert found["got"] is None
    assert found["after"] == found["before"]


def test_several_that_may_get_it_at_once_though_the_kernel_makes_them_wait() -> None:
    """It changes an autogroup only each tenth of a second, for those who administer nothing: they ask again."""
    needs_rights()
    awaited = f"nice {_PREFERRED}" if os.path.exists("/proc/self/autogroup") else ""
    started = [child(_PREFERRED, awaited, without("sys_admin")) for _ in range(3)]
    for process in started:
        assert said(process)["got"] == [_PREFERRED, None]


@pytest.mark.parametrize(
    ("limit", "status"), [(0, WARNING), (24, WARNING), (25, OK), (40, OK), (resource.RLIM_INFINITY, OK)]
)
def test_doctor_says_what_to_type_where_brokers_would_get_no_priority(limit: int, status: str) -> None:
    found = doctor.priority(limit, capabilities=0)
    assert found.status == status
    assert found.fix == (None if status == OK else "sudo prlimit --pid $$ --nice=25")


def test_doctor_knows_who_may_set_any_niceness() -> None:
    assert doctor.priority(0, capabilities=1 << 23).status == OK
    assert doctor.priority(0, capabilities=~(1 << 23)).status == WARNING
