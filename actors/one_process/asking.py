"""A client of the cluster in its own process: it asks a broker one thing, as any client would. And how one waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, FindCoordinatorRequest, response_class

_CLIENT_ID = "coterie-testing"
_FIND_VERSION = 3
_PAUSE_SECONDS = 0.002


async def ask(host: str, port: int, message: ApiMessage, version: int) -> Any:
    """What a broker answers. Raises OSError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(encode_request(message, version, 1, _CLIENT_ID))
        length = int.from_bytes(await reader.readexactly(4), "big")
        frame = await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("a broker hung up") from error
    finally:
        writer.close()
    return decode_response(response_class(message.api_key), version, frame)[1]


async def coordinator_served(host: str, port: int) -> None:
    """Have the topic of groups created, and wait until a coordinator serves: no client has to wait for it then."""
    asked = FindCoordinatorRequest(key=_CLIENT_ID, key_type=0)
    while True:
        if not (await ask(host, port, asked, _FIND_VERSION)).error_code:
            return
        await asyncio.sleep(_PAUSE_SECONDS)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens on this loop. Callers have the deadline."""
    while True:
        if condition():
            return
        await asyncio.sleep(_PAUSE_SECONDS)
