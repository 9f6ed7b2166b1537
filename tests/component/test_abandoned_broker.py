"""A broker that has let go of everything, and those who were just connecting to it. Its process goes on here."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest
import uvloop

from tests.support.one_broker import World

_TURNS = range(5)
"""Numbers of loop turns after which the broker ends. A connection is accepted and made within them."""
_ENDS_WITHIN_S = 30


def _dialled(server_path: str, *ports: int) -> list[socket.socket]:
    """Connections that the kernel has made, and the broker has not seen."""
    made = [socket.socket(socket.AF_UNIX), *(socket.socket(socket.AF_INET) for _ in ports)]
    for each, address in zip(made, (server_path, *(("127.0.0.1", port) for port in ports)), strict=True):
        each.connect(address)
        each.setblocking(False)
    return made


async def _has_ended(end: socket.socket) -> None:
    """Read what was said before, and then the end."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_ENDS_WITHIN_S):
            while await loop.sock_recv(end, 1024):
                pass
    except ConnectionResetError:
        pass
    finally:
        end.close()


async def _abandon_after(world: World, turns: int) -> dict[str, bool]:
    """Abandon a broker so many loop turns after others have connected. For each of them, true if it was hung up on."""
    server = await world.start_broker()
    replicas = world.metadata.brokers[0].replica_port
    ends = _dialled(server.spec.socket_path, server.port, replicas)
    for _ in range(turns):
        await asyncio.sleep(0)
    server.abandon()
    found = await asyncio.gather(*(_has_ended(end) for end in ends), return_exceptions=True)
    return {who: error is None for who, error in zip(("shard", "client", "leader"), found, strict=True)}


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # asyncio leaves what it had accepted
@pytest.mark.parametrize("loop_factory", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_who_was_just_connecting_stayed_with_a_broker_that_had_ended(tmp_path: Path, loop_factory: type) -> None:
    """The next broker waited for a shard that had stayed, and got no other one: its groups had no coordinator."""

    async def each_turn() -> list[dict[str, bool]]:
        world = World(tmp_path)
        await world.start_controller()
        try:
            return [await _abandon_after(world, turns) for turns in _TURNS]
        finally:
            world.stop_controller()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        hung_up = runner.run(each_turn())
    assert hung_up == [{"shard": True, "client": True, "leader": True}] * len(_TURNS)
