"""A broker's way to the controller, over real sockets, while the one that led is off and another one comes to lead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.broker.contact import Contact
from actors.broker.spec import StartError
from actors.links.secret import Secrets
from actors.runtime.environment import REAL
from tests.support.controller_world import controller
from tests.support.runtime_helpers import SECRET, until


@asynccontextmanager
async def machine_that_is_off() -> AsyncIterator[tuple[str, int]]:
    """The address of one that answers nothing, as far as a proof of the secret goes."""

    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(nothing, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()


def contact(*told: tuple[str, int] | Exception) -> Contact:
    """That of a broker to which the controllers name one leader after the other, and then always the last."""
    left = list(told)

    def find() -> tuple[str, int, Secrets]:
        found = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(found, Exception):
            raise found
        return *found, SECRET

    return Contact(0, find, asyncio.get_running_loop(), REAL.chance)


async def test_a_leader_that_answers_nothing_is_left_as_soon_as_another_one_is_named(tmp_path: Path) -> None:
    async with controller(tmp_path) as c, machine_that_is_off() as off:
        nobody = ConnectionError("no controller knows which one leads")
        joining = contact(off, off, nobody, ("127.0.0.1", c.port))
        with pytest.raises(ConnectionError, match="another controller leads by now"):
            await joining.join()
        assert not joining.connected
        assert (await joining.join()).metadata.version == c.metadata.version
        assert joining.connected
        joining.link.close()


async def test_a_file_of_the_secret_that_is_wrong_by_then_is_said(tmp_path: Path) -> None:
    async with machine_that_is_off() as off:
        with pytest.raises(StartError, match="no secret"):
            await contact(off, StartError("no secret")).join()


async def test_a_join_that_is_called_off_leaves_nothing_behind() -> None:
    async with machine_that_is_off() as off:
        asked: list[tuple[str, int]] = []

        def find() -> tuple[str, int, Secrets]:
            asked.append(off)
            return *off, SECRET

        before = asyncio.all_tasks()
        joining = asyncio.ensure_future(Contact(0, find, asyncio.get_running_loop(), REAL.chance).join())
        await until(lambda: len(asked) == 2, what="it to ask again")
        own = asyncio.all_tasks() - before - {joining}
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
        await until(lambda: all(task.done() for task in own), what="its tasks to end")
