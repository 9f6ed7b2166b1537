"""The proofs by which the two ends of a connection show each other that they know a secret, which is never sent.

A challenge each way is answered with an HMAC-SHA256 over it and the role of the end that answers. Without the role, an
end could be made to answer its own challenge, on this connection or on another.

The versions that an end speaks travel within its challenge, behind the random bytes. So nobody can change them on the
way: the answer would be to another challenge. Builds that know of no versions take a message of one field alone, and
a challenge of up to 64 bytes.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from actors.links.codec import Codec
from actors.links.versions import Spoken, decoded, encoded

Role = Literal["controller", "broker", "monitor", "leader", "follower", "pool", "member", "voter"]

PEERS: Final[dict[Role, tuple[Role, ...]]] = {
    "controller": ("broker", "monitor", "voter"),
    "broker": ("controller",),
    "monitor": ("controller",),
    "leader": ("follower",),
    "follower": ("leader",),
    "pool": ("member",),
    "member": ("pool",),
    "voter": ("controller",),
}
"""The roles that the other end may have, by the role of this end."""
CHALLENGE_BYTES: Final = 16
LIMIT_UNPROVED: Final = 4096
"""The longest message, in bytes, of an end that has not proved itself."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """Each end -> the other: prove that you know the secret."""

    challenge: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """The answer to a challenge: the HMAC-SHA256 of role and challenge, with the secret as key."""

    proof: bytes


CODEC: Final[Codec[Challenge | Proof]] = Codec("unproved", {1: Challenge, 2: Proof})


def challenge_of(random: bytes, spoken: Spoken) -> bytes:
    """A challenge of CHALLENGE_BYTES random ones, from an end that speaks these versions."""
    return random + encoded(spoken)


def told_in(challenge: bytes) -> Spoken:
    """The versions and the build of the end that has sent this challenge. Raises LinkError."""
    return decoded(challenge[CHALLENGE_BYTES:])


def is_challenge(challenge: bytes) -> bool:
    """True if its length is that of a challenge: from CHALLENGE_BYTES to four times as many."""
    return CHALLENGE_BYTES <= len(challenge) <= 4 * CHALLENGE_BYTES


def proof(secret: bytes, role: Role, challenge: bytes) -> bytes:
    """The answer to the challenge from an end in this role."""
    return hmac.digest(secret, role.encode() + b":" + challenge, "sha256")


def prover(answer: bytes, known: Iterable[bytes], role: Role, challenge: bytes) -> tuple[bytes, Role] | None:
    """The secret with which the other end has answered our challenge, and its role; or None. `role` is our own."""
    proofs = ((secret, peer) for secret in known for peer in PEERS[role])
    return next((each for each in proofs if is_proof(answer, each[0], each[1], challenge)), None)


def is_proof(answer: bytes, secret: bytes, peer: Role, challenge: bytes) -> bool:
    """True if this is the answer to our challenge of an end in the role `peer` that knows the secret."""
    return hmac.compare_digest(proof(secret, peer, challenge), answer)
