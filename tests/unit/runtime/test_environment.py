"""The environment that a process has from its machine, where nobody hands in another."""

from __future__ import annotations

import os
import random
import time

import pytest

from actors.runtime.environment import REAL, Environment, new_uuid


def test_the_clocks_of_the_machine_say_its_time_in_their_units() -> None:
    clock = REAL.clock
    before = time.monotonic()
    assert before <= clock.monotonic() <= time.monotonic()
    assert before * 1000 - 1 <= clock.monotonic_ms() <= time.monotonic() * 1000
    assert abs(clock.wall_ms() - time.time() * 1000) < 60_000


def test_ids_are_random_uuids_and_as_foreseeable_as_their_chance() -> None:
    made = new_uuid(REAL.chance)
    assert made.version == 4
    assert made != new_uuid(REAL.chance)
    assert new_uuid(random.Random(7)) == new_uuid(random.Random(7))


def test_the_kernel_knows_our_own_process() -> None:
    kernel = REAL.kernel
    assert kernel.pid() == os.getpid()
    assert kernel.look(kernel.pid()) is not None
    assert kernel.started_at(kernel.pid()) > 0


def test_an_id_that_is_nobody_s_is_not_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    for pid in (-1, 0, 7):
        REAL.kernel.kill(pid)
    assert killed == [7]


def test_to_kill_who_has_gone_already_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", gone)
    REAL.kernel.kill(7)


def test_an_environment_is_that_of_the_machine_where_nothing_else_is_said() -> None:
    made = Environment(chance=random.Random(1))
    assert made.clock == REAL.clock
    assert made.kernel == REAL.kernel
