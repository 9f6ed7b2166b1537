"""Measures whether the time of a failed SCRAM login tells if the user exists: `python -m benchmarks.guessing`.

In one process and without a socket, where nothing hides it: from a client's token to the broker's answer, or to the
end. A user with a wrong password, one who does not exist, and one who has no credential for the mechanism, in turns.
Printed are medians in microseconds and the p of a Mann-Whitney test against the first, for both steps. A network adds
some hundred times as much noise.
"""

from __future__ import annotations

import argparse
import gc
import math
import random
import statistics
import sys
import time
from types import SimpleNamespace
from typing import Any

from actors.broker.entrance.users import StoredUsers
from actors.security.scram import ScramClient, ScramMechanism
from actors.wire.messages import SaslAuthenticateRequest, SaslHandshakeRequest
from placement.metadata import ClusterMetadata
from placement.records import ScramSecretRecord, UserScramCredentialRecord
from tests.support.login_world import World, request

KNOWN, UNKNOWN, OTHER = "wrong password", "unknown user", "no credential for the mechanism"
USERS = {KNOWN: "known-{}", UNKNOWN: "nobod-{}", OTHER: "other-{}"}
STORED = 100


def metadata() -> ClusterMetadata:
    """A hundred users of either mechanism."""
    made = ClusterMetadata()
    made.apply(ScramSecretRecord(bytes(32)))
    for number in range(STORED):
        for kind, mechanism in ((KNOWN, ScramMechanism.SHA_256), (OTHER, ScramMechanism.SHA_512)):
            keys = (random.randbytes(mechanism.digest_bytes) for _ in range(2))
            user = USERS[kind].format(number)
            made.apply(UserScramCredentialRecord(user, mechanism.code, random.randbytes(24), *keys, 8192))
    return made


def login(world: World, user: str) -> tuple[float, float]:
    """Microseconds of both steps of a login that fails."""
    client = world.connect()
    client.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    machine = ScramClient(ScramMechanism.SHA_256, user, "a" * 24)
    message = SaslAuthenticateRequest(auth_bytes=machine.first())
    data = request(message, 2)
    first = _took(client, data)
    machine.read_first(client.answer(message, 2).auth_bytes)
    last = _took(client, request(SaslAuthenticateRequest(auth_bytes=machine.final(bytes(32))), 2))
    client.transport.abort()
    world.loop.timers.clear()
    return first, last


def _took(client: Any, data: bytes) -> float:
    began = time.perf_counter_ns()
    client.connection.data_received(data)
    return (time.perf_counter_ns() - began) / 1000


def p_of(one: list[float], other: list[float]) -> float:
    """Of the Mann-Whitney test: how likely samples of one distribution differ as much."""
    ranked = sorted([(value, 0) for value in one] + [(value, 1) for value in other])
    total, at = 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        total += sum(1 - side for _, side in ranked[at:end]) * (at + end + 1) / 2
        at = end
    size, others = len(one), len(other)
    u = total - size * (size + 1) / 2
    deviation = math.sqrt(size * others * (size + others + 1) / 12)
    return math.erfc(abs(u - size * others / 2) / deviation / math.sqrt(2))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=2000)
    given = parser.parse_args()
    context: Any = SimpleNamespace(metadata=metadata())
    world = World(users=StoredUsers(context))
    world.desk.failures = SimpleNamespace(note=lambda *said: None)  # type: ignore[assignment]
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in USERS}
    gc.disable()
    for number in range(given.samples + 200):
        for kind in random.sample(list(USERS), len(USERS)):
            took = login(world, USERS[kind].format(number % STORED))
            if number >= 200:  # warm
                found[kind].append(took)
    for step in (0, 1):
        base = [took[step] for took in found[KNOWN]]
        for kind, samples in found.items():
            values = [took[step] for took in samples]
            p = p_of(base, values)
            sys.stdout.write(f"step {step + 1}: {kind}: median {statistics.median(values):.2f} µs, p {p:.3g}\n")


if __name__ == "__main__":
    main()
