"""The loop, the time limit and the clean-up that tests/conftest.py gives to async tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import uvloop

from tests.conftest import limited


@pytest.fixture
def ended() -> Iterator[list[str]]:
    notes: list[str] = []
    yield notes
    assert notes == ["in order"]


async def test_an_async_test_has_a_loop_like_that_of_our_processes() -> None:
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)


async def test_a_test_that_takes_too_long_cleans_up_and_fails(ended: list[str]) -> None:
    with pytest.raises(TimeoutError):
        await limited(_for_ever, seconds=0.01)(ended=ended)
    assert ended == ["in order"]


async def test_what_a_test_leaves_running_ends_before_its_fixtures_do(ended: list[str]) -> None:
    running = asyncio.create_task(_for_ever(ended))
    await asyncio.sleep(0)
    assert not running.done()
    assert ended == []


async def _for_ever(ended: list[str]) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        ended.append("in order")
