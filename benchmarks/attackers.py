"""Clients that mean no good: `python -m benchmarks.attackers VERB ARGUMENT...`, each in a process of its own.

Also a long run of short connections: `python -m benchmarks.attackers short PORT CAFILE 1000000 100 no`. The part makes
20,000 of them; a million have not been run.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from actors.security.scram import ScramClient, ScramMechanism, salted_password
from actors.wire.framing import decode_response, encode_request
from actors.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest, response_class

HOST = "127.0.0.1"
USER, PASSWORD = "anne", "pencil"
NOBODY = "nobody"
SCRAM, PLAIN = "SCRAM-SHA-256", "PLAIN"
ANNOUNCED_BYTES = 500 << 10
RESET = struct.pack("ii", 1, 0)  # of SO_LINGER: closing resets
SALTED = bytes(32)  # nobody's: a login that fails needs no derivation
FAILED = 58

T = TypeVar("T")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def trusting(cafile: str) -> ssl.SSLContext:
    """A client's end that knows the broker by this authority."""
    return ssl.create_default_context(cafile=cafile)


@asynccontextmanager
async def connected(port: int, context: ssl.SSLContext | None = None) -> AsyncIterator[Streams]:
    """A connection, in TLS if there is a context."""
    name = None if context is None else "localhost"
    reader, writer = await asyncio.open_connection(HOST, port, ssl=context, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def ask(streams: Streams, message: Any, version: int) -> Any:
    """A request and its answer."""
    reader, writer = streams
    writer.write(encode_request(message, version, 1, "attacker"))
    length = int.from_bytes(await reader.readexactly(4), "big")
    frame = await reader.readexactly(length)
    return decode_response(response_class(message.api_key), version, frame)[1]


async def log_in(streams: Streams, mechanism: str, user: str, password: str | None) -> int:
    """The code that a login ends with. Without a password nothing is derived, and the proof is wrong."""
    await ask(streams, SaslHandshakeRequest(mechanism=mechanism), 1)
    if mechanism == PLAIN:
        token = f"\0{user}\0{password or 'wrong'}".encode()
        return int((await ask(streams, SaslAuthenticateRequest(auth_bytes=token), 2)).error_code)
    machine = ScramClient(ScramMechanism.SHA_256, user, "a" * 24)
    first = await ask(streams, SaslAuthenticateRequest(auth_bytes=machine.first()), 2)
    asked = machine.read_first(first.auth_bytes)
    salted = SALTED
    if password is not None:
        salted = salted_password(ScramMechanism.SHA_256, password, asked.salt, asked.iterations)
    last = await ask(streams, SaslAuthenticateRequest(auth_bytes=machine.final(salted)), 2)
    return int(last.error_code)


async def good_login_ms(port: int, cafile: str) -> float:
    """The time that a login with the right password takes, from the connection on."""
    began = time.perf_counter()
    async with connected(port, trusting(cafile)) as streams:
        assert await log_in(streams, SCRAM, USER, PASSWORD) == 0
    return (time.perf_counter() - began) * 1000


async def logins(port: str, cafile: str, mechanism: str, count: str, at_once: str) -> int:
    """Logins that fail, of a user that exists and of one that does not in turns; how many were told so."""
    context = trusting(cafile)

    async def one(number: int) -> bool:
        async with connected(int(port), context) as streams:
            user = USER if number % 2 else NOBODY
            try:
                return await log_in(streams, mechanism, user, None) == FAILED
            except (OSError, asyncio.IncompleteReadError):
                return False  # too many passwords wait

    return sum(await _each(one, int(count), int(at_once)))


async def short(port: str, cafile: str, count: str, at_once: str, reset: str) -> int:
    """Connections that end after the handshake, or with `reset=yes` by a reset within it."""
    context = trusting(cafile)
    hello = hello_of(context)

    async def one(number: int) -> bool:
        if reset != "yes":
            async with connected(int(port), context):
                return True
        async with connected(int(port)) as (reader, writer):
            writer.write(hello)
            await reader.read(1)
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            return True

    return sum(await _each(one, int(count), int(at_once)))


async def keep(port: str, cafile: str, what: str, count: str, seconds: str) -> int:
    """Connections that stay: silent, half a handshake, a byte a second, or a long frame that never comes."""
    context = trusting(cafile)
    hello = hello_of(context)
    ends = time.monotonic() + float(seconds)

    async def one(number: int) -> bool:
        with suppress(OSError, asyncio.IncompleteReadError):
            async with connected(int(port), context if what == "announcing" else None) as streams:
                await _say(streams, what, hello, ends)
                await asyncio.sleep(max(ends - time.monotonic(), 0))
        return True

    return sum(await asyncio.gather(*map(one, range(int(count)))))


async def _say(streams: Streams, what: str, hello: bytes, ends: float) -> None:
    _, writer = streams
    if what == "half-open":
        writer.write(hello)
    elif what == "announcing":
        await ask(streams, SaslHandshakeRequest(mechanism=PLAIN), 1)
        writer.write(ANNOUNCED_BYTES.to_bytes(4, "big") + bytes(100))
    elif what == "dribbling":
        for byte in hello:
            writer.write(bytes([byte]))
            await asyncio.sleep(1)
            if time.monotonic() > ends:
                return


async def flood(ports: str, seconds: str, at_once: str) -> int:
    """Connections that prove nothing, each as long as it is let be, again and again; how many there were."""
    targets = [int(port) for port in ports.split(",")]
    hello = hello_of(ssl.create_default_context())
    ends, made = time.monotonic() + float(seconds), 0

    async def again(number: int) -> None:
        nonlocal made
        while time.monotonic() < ends:
            with suppress(OSError):
                async with connected(targets[made % len(targets)]) as (reader, writer):
                    made += 1
                    writer.write(hello)
                    async with asyncio.timeout(max(ends - time.monotonic(), 0)):
                        while await reader.read(4096):
                            pass

    with suppress(TimeoutError):
        await asyncio.gather(*map(again, range(int(at_once))))
    return made


def hello_of(context: ssl.SSLContext) -> bytes:
    """The first message of a handshake."""
    out = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost").do_handshake()
    return out.read()


async def _each(one: Callable[[int], Awaitable[T]], count: int, at_once: int) -> list[T]:
    """So many, a number of them at once."""
    numbers, done = iter(range(count)), list[T]()

    async def again() -> None:
        for number in numbers:
            done.append(await one(number))

    await asyncio.gather(*(again() for _ in range(at_once)))
    return done


VERBS: dict[str, Callable[..., Any]] = {"logins": logins, "short": short, "keep": keep, "flood": flood}

if __name__ == "__main__":
    sys.stdout.write(f"{asyncio.run(VERBS[sys.argv[1]](*sys.argv[2:]))}\n")
