"""A client of the cluster in its own process: it asks a broker one thing, as any client would. And how one waits."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any, Final

from actors.one_process.orders import OrderError
from actors.wire.errors import ErrorCode
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, FindCoordinatorRequest, response_class

CLIENT_ID: Final = f"coterie-testing-{os.getpid()}"
"""Of this process: a cluster knows by it what it asks itself."""
_FIND_VERSION = 3
_PAUSE_SECONDS = 0.002
NOT_YET: Final = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)
"""Brokers answer these until a coordinator serves."""


async def ask(host: str, port: int, message: ApiMessage, version: int) -> Any:
    """A broker's answer. Raises OSError."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(encode_request(message, version, 1, CLIENT_ID))
        length = int.from_bytes(await reader.readexactly(4), "big")
        frame = await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise ConnectionError("a broker hung up") from error
    finally:
        writer.close()
    return decode_response(response_class(message.api_key), version, frame)[1]


async def coordinator_served(host: str, port: int, heard: Callable[[str], None]) -> None:
    """Have the topic of groups created, and wait until a coordinator serves: no client has to wait for it then.

    `heard` is told why none serves yet. Raises OrderError if none will.
    """
    asked = FindCoordinatorRequest(key=CLIENT_ID, key_type=0)
    while (answer := await ask(host, port, asked, _FIND_VERSION)).error_code:
        code = ErrorCode(answer.error_code)
        reason = f"{code.name}: {answer.error_message}"
        if code not in NOT_YET:
            raise OrderError(f"groups have no coordinator: {reason}")
        heard(reason)
        await pause()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that happens on this loop. Callers have the deadline."""
    while True:
        if condition():
            return
        await pause()


async def pause() -> None:
    """Wait before one asks again."""
    await asyncio.sleep(_PAUSE_SECONDS)
