"""Tokens of logins with something changed: `python -m tests.support.token_mutations --count 100000`.

A broker takes each of them from a client that has just shaken hands: nothing may be raised, and nothing may stay.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from actors.security.authentication import State
from actors.security.jwks import read_keys
from actors.security.oauth import TokenError, TokenRules, check_token
from actors.security.scram import ScramClient, ScramMechanism
from actors.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.support.login_world import DELAY, OAUTHBEARER, PLAIN, SALTED, SHA_256, Client, World, request
from tests.support.tokens import NOW, everything, token

_KIND = "ES256"
_KEYS = read_keys(everything())
_BEARER = b"n,,\x01auth=Bearer %b\x01\x01" % token(algorithm=_KIND).encode()
_INTERESTING = (b"", b"\0", b",", b"=", b"=2C", b"n,,", b"p=", b"\x01", b"\xff\xfe", "é".encode(), b"a" * 1000)


def mutated(token: bytes, chance: random.Random) -> bytes:
    """The token with one to four changes: bits, bytes, parts cut, doubled or put elsewhere."""
    made = bytearray(token)
    for _ in range(chance.randint(1, 4)):
        at, to = sorted(chance.choices(range(len(made) + 1), k=2))
        match chance.randrange(5):
            case 0 if made:
                made[at % len(made)] ^= 1 << chance.randrange(8)
            case 1:
                made[at:to] = b""
            case 2:
                made[at:at] = made[at:to]
            case 3:
                made[at:at] = chance.choice(_INTERESTING)
            case _:
                part = bytes(made[at:to])
                made[at:to] = b""
                where = chance.randint(0, len(made))
                made[where:where] = part
    return bytes(made)


def _ask(client: Client, token: bytes) -> bytes:
    """The answer to the token, if it comes at once."""
    message = SaslAuthenticateRequest(auth_bytes=token)
    client.send(request(message, 2))
    return bytes(client.answer(message, 2).auth_bytes) if client.transport.written else b""


def _plain(client: Client, change: Callable[[bytes], bytes]) -> None:
    _ask(client, change(b"\0user\0pencil"))


def _bearer(client: Client, change: Callable[[bytes], bytes]) -> None:
    _ask(client, change(_BEARER))


def _scram_first(client: Client, change: Callable[[bytes], bytes]) -> None:
    _ask(client, change(ScramClient(ScramMechanism.SHA_256, "user", "ours").first()))


def _scram_final(client: Client, change: Callable[[bytes], bytes]) -> None:
    machine = ScramClient(ScramMechanism.SHA_256, "user", "ours")
    machine.read_first(_ask(client, machine.first()))
    _ask(client, change(machine.final(SALTED)))


_LOGINS = ((PLAIN, _plain), (OAUTHBEARER, _bearer), (SHA_256, _scram_first), (SHA_256, _scram_final))


class _Tokens:
    def judge(self, shown: str, done: Callable[[Any], None]) -> None:
        try:
            done(check_token(shown, _KEYS, TokenRules(), NOW))
        except TokenError as error:
            done(error)


def ends(seed: int, count: int) -> Counter[str]:
    """Try so many logins with changed tokens; count their ends. Raises AssertionError if one leaves something."""
    chance, world, found = random.Random(seed), World(), Counter[str]()
    tokens: Any = _Tokens()
    world.listener.tokens = tokens
    for number in range(count):
        client = world.connect()
        mechanism, login = _LOGINS[number % len(_LOGINS)]
        client.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        login(client, lambda token: mutated(token, chance))
        while world.passwords.unanswered:
            world.passwords.say(False)
        world.loop.advance(DELAY)
        found[_end(client)] += 1
        world.loop.advance(1.0)
        client.transport.abort()
        assert len(world.unauthenticated) == 0
        assert world.loop.timers == []
        assert client.connection.held == b""
    return found


def _end(client: Client) -> str:
    gate: Any = client.connection.gate
    if gate is None or gate.machine.settled:
        return "logged in"
    assert not client.transport.aborted, "that is for what nobody expects"
    if client.transport.closed:
        return "failed"
    state = gate.machine.state(0.0)
    assert state is State.FRAMED, state
    return "goes on"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    sys.stdout.write(f"{dict(ends(given.seed, given.count))}\n")


if __name__ == "__main__":
    main()
