"""How the two ends of a connection prove to each other that they know a secret, which is never sent.

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
"""What the other end may be, by what this end is."""
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
    """What the end speaks that has sent this challenge. Raises LinkError."""
    return decoded(challenge[CHALLENGE_BYTES:])


def is_challenge(challenge: bytes) -> bool:
    """Whether it is long enough to be one, and no longer than anybody needs."""
    return CHALLENGE_BYTES <= len(challenge) <= 4 * CHALLENGE_BYTES


def proof(secret: bytes, role: Role, challenge: bytes) -> bytes:
    """What an end in this role answers to the challenge."""
    return hmac.digest(secret, role.encode() + b":" + challenge, "sha256")


def prover(answer: bytes, known: Iterable[bytes], role: Role, challenge: bytes) -> tuple[bytes, Role] | None:
    """By which of these secrets the other end has answered our challenge, and as what, ours being `role`; or None."""
    proofs = ((secret, peer) for secret in known for peer in PEERS[role])
    return next((each for each in proofs if is_proof(answer, each[0], each[1], challenge)), None)


def is_proof(answer: bytes, secret: bytes, peer: Role, challenge: bytes) -> bool:
    """Whether this is the other end's answer to our challenge, the other end being `peer`."""
    return hmac.compare_digest(proof(secret, peer, challenge), answer)
