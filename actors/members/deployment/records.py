"""The records of the topic `__coterie_pools`: their keys, their bytes, and the pool that a set of them describes.

A pool `billing` has the keys `billing` (its version), `billing/size`, `billing/paused`, `billing/restart`, which
programs write, and `billing/term`, `billing/good`, `billing/progress`, `billing/deaths`, which its supervisor writes.
Every one is whole in itself, so that compaction may leave the last of each, and is read in the order of offsets.
Without the first there is no pool. A value is a byte for its format, then the bytes of a codec. Nothing here is
unpickled but in a supervisor: to list pools, nobody runs their code.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

from actors.links.codec import Codec, LinkError
from actors.links.member_deaths import Note
from actors.members.autoscale import Autoscale
from actors.members.deployment import sense
from actors.members.deployment.names import TOPIC
from actors.members.pools.plan import PREFIX_MAX, PoolError

FORMAT: Final = 1
_NAME: Final = re.compile(rf"[a-zA-Z0-9._-]{{1,{PREFIX_MAX}}}")
_WHOLE: Final = {field.name for field in fields(Autoscale) if "int" in str(field.type)}


@dataclass(frozen=True, slots=True)
class Deployment:
    """One version of a pool. `body` are the pickled arguments of ConsumerPool, with the handler."""

    incarnation: str
    """The same in all versions, until the pool is stopped."""
    id: str
    version: int
    deployed_at_ms: int
    group_id: str
    topics: tuple[str, ...]
    size: int | None
    autoscale: Mapping[str, float] | None
    bootstrap_servers: str
    settings: Mapping[str, str]
    """Of a client's logins and TLS, as JSON: paths and names, and nothing that is secret."""
    at_home: bool
    """True if it was deployed on the Ray on which the brokers run, and begins again with them."""
    python: str
    body: bytes = field(repr=False)
    seal: bytes = field(repr=False, default=b"")
    """Of all the rest, by the cluster on whose Ray it was deployed (`home`); empty if that was another Ray."""

    @property
    def policy(self) -> Autoscale | None:
        """The rule by which it follows its load; None if it does not. Raises ConfigurationError for a bad one."""
        if self.autoscale is None:
            return None
        given: dict[str, Any] = {
            name: int(value) if name in _WHOLE else value for name, value in self.autoscale.items()
        }
        return Autoscale(**given)

    @property
    def security(self) -> dict[str, Any]:
        """Settings of a client."""
        return {name: json.loads(text) for name, text in self.settings.items()}

    def check(self) -> None:
        """Raise PoolError if it makes no sense."""
        texts = (self.incarnation, self.id, self.group_id, self.bootstrap_servers, self.python)
        sense.check_texts(*texts)
        if not all((self.incarnation, self.id, self.group_id)):
            raise PoolError("it has no incarnation, no id or no group")
        sense.check_version(self.version, self.deployed_at_ms)
        sense.check_topics(self.topics)
        sense.check_settings(self.settings)
        sense.check_policy(self.size, lambda: self.policy)


def autoscale_values(policy: Autoscale | None) -> dict[str, float] | None:
    """The fields of a policy that are not None, by name; None without a policy."""
    if policy is None:
        return None
    values = {each.name: getattr(policy, each.name) for each in fields(policy)}
    return {name: value for name, value in values.items() if value is not None}


def security_texts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as they stand in a record."""
    return {name: json.dumps(value) for name, value in settings.items()}


@dataclass(frozen=True, slots=True)
class Size:
    """The wished number of members."""

    incarnation: str
    size: int

    def check(self) -> None:
        """Raise PoolError if it makes no sense."""
        sense.check_size(self.size)


@dataclass(frozen=True, slots=True)
class Pause:
    """A wish to pause the pool, which leaves it without members, or to resume it."""

    incarnation: str
    paused: bool

    def check(self) -> None:
        """It always makes sense."""


@dataclass(frozen=True, slots=True)
class Restart:
    """All members are to be restarted once for each `id`."""

    incarnation: str
    id: str

    def check(self) -> None:
        """Raise PoolError if it makes no sense."""
        sense.check_texts(self.id)


@dataclass(frozen=True, slots=True)
class Term:
    """The supervisor that looks after the pool. One that reads another's ends itself."""

    incarnation: str
    supervisor: str

    def check(self) -> None:
        """Raise PoolError if it makes no sense."""
        sense.check_texts(self.supervisor)


@dataclass(frozen=True, slots=True)
class Good:
    """The last version that all members ran; what is gone back to."""

    incarnation: str
    deployment: Deployment

    def check(self) -> None:
        """Raise PoolError if it makes no sense."""
        self.deployment.check()
        if self.deployment.incarnation != self.incarnation:
            raise PoolError("it is a version of another pool")


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a supervisor, for the one after it."""

    incarnation: str
    deployment: str
    """The id of the version that goes through the members, or has gone."""
    done: tuple[int, ...] = ()
    """The slots in which it has proved to work."""
    rolled_back: str | None = None
    """The reason why it was given up; None if it was not."""
    size: int | None = None
    """The last size of a pool that follows its load."""

    def check(self) -> None:
        """Raise PoolError if it makes no sense."""
        sense.check_slots(self.done)
        sense.check_texts(self.deployment, self.rolled_back or "")
        if self.size is not None:
            sense.check_size(self.size, least=0)


@dataclass(frozen=True, slots=True)
class Deaths:
    """The notes of records that were in hand when members died, so that they outlive the supervisor."""

    incarnation: str
    deployment: str
    """The id of the version that members ran, or were to run."""
    restart: str
    """That of the last restart. After another one, or with another version, every record is tried anew."""
    notes: tuple[Note, ...]

    def check(self) -> None:
        """Raise PoolError if it makes no sense."""
        sense.check_texts(self.deployment, self.restart)
        sense.check_notes(self.notes)


Record: TypeAlias = Deployment | Size | Pause | Restart | Term | Good | Progress | Deaths

CODEC: Final[Codec[Record]] = Codec(
    "pools topic",
    {1: Deployment, 2: Size, 3: Pause, 4: Restart, 5: Term, 6: Good, 7: Progress, 8: Deaths},
    exact=True,
)
KINDS: Final = {
    Deployment: "",
    Size: "size",
    Pause: "paused",
    Restart: "restart",
    Term: "term",
    Good: "good",
    Progress: "progress",
    Deaths: "deaths",
}
"""The part of a record's key behind the pool's name, by class."""


def is_name(name: str) -> bool:
    """True if a pool can be called so."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def check_name(name: str) -> None:
    """Raise PoolError if a pool cannot be called so."""
    if not is_name(name):
        raise PoolError(f"a pool's name must be 1 to {PREFIX_MAX} of a-z, A-Z, 0-9, '.', '_' and '-', got {name!r}")


def key_of(name: str, record: Record) -> bytes:
    """The key of a record of this pool."""
    return _key(name, KINDS[type(record)])


def keys_of(name: str) -> list[bytes]:
    """All keys of a pool, that of its version first."""
    return [_key(name, kind) for kind in KINDS.values()]


def _key(name: str, kind: str) -> bytes:
    return (f"{name}/{kind}" if kind else name).encode()


def encode(record: Record) -> bytes:
    """The value of a record."""
    return bytes((FORMAT,)) + CODEC.encode(record)


def decode(value: bytes) -> Record:
    """The record of a value. Raises PoolError for what this version of Coterie cannot read."""
    if value[:1] != bytes((FORMAT,)):
        what = f"format {value[0]}" if value else "no format"
        raise PoolError(f"{TOPIC} has a record of {what}, of another version of Coterie; this one reads {FORMAT}")
    try:
        return CODEC.decode(value[1:])
    except LinkError as error:
        raise PoolError(f"{TOPIC} has a record that cannot be read: {error}") from error


def digest_of(deployment: Deployment) -> bytes:
    """Of all of a version but its seal (SHA-256). It is the same before and after the topic, whose numbers are read."""
    read = decode(encode(replace(deployment, seal=b"")))
    return sha256(encode(read)).digest()


def python_version() -> str:
    """The Python that pickles here; functions that travel by value need the same one."""
    return ".".join(platform.python_version_tuple()[:2])


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """A pool by all its records."""

    deployment: Deployment
    scaled: int | None = None
    """The size that was wished last."""
    scaled_last: bool = False
    """True if that was after the last version."""
    paused: bool = False
    restart: str = ""
    term: str = ""
    good: Deployment | None = None
    progress: Progress | None = None
    deaths: Deaths | None = None

    @property
    def actor(self) -> str:
        """The id of the actor that looks after it, or did last; empty if none has yet."""
        return self.term.partition("/")[0]

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of records, if they are about this version and this restart; else none."""
        deaths = self.deaths
        same = deaths is not None and (deaths.deployment, deaths.restart) == (self.deployment.id, self.restart)
        return deaths.notes if deaths is not None and same else ()

    @property
    def rolled_back(self) -> str | None:
        """The reason why the last version was given up; None if it was not."""
        progress = self.progress
        return progress.rolled_back if progress and progress.deployment == self.deployment.id else None

    @property
    def wanted(self) -> Deployment:
        """The version that members are to run."""
        return self.good if self.rolled_back is not None and self.good is not None else self.deployment

    @property
    def size(self) -> int:
        """The number of members that it is to have; if it follows its load, the number to begin with."""
        wanted = self.wanted
        policy = wanted.policy
        if policy is not None:
            kept = self.progress.size if self.progress is not None else None
            began_with = wanted.size if wanted.size is not None else max(policy.min_size, 1)
            return min(max(began_with if kept is None else kept, policy.min_size), policy.max_size)
        if self.scaled is not None and (self.scaled_last or wanted is not self.deployment):
            return self.scaled
        return wanted.size or 1
