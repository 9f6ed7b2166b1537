"""A client of the cluster in its own process: it asks a broker one thing, as any client would."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import ApiMessage, response_class

_CLIENT_ID = "coterie-testing"


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
