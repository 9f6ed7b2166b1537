"""The arguments of a pool's supervisor: bytes of a codec, which another build can read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from actors.links.codec import Codec
from actors.links.versions import Spoken
from actors.members.deployment.records import security_texts


@dataclass(frozen=True, slots=True)
class SupervisorSpec:
    """The pool of a supervisor, and where its records stand. `security` are settings of a client.

    `after` is the actor that it takes the pool over from, if there was one. `at_home`: whether the brokers are on the
    same Ray, and versions have to be sealed.

    Builds before version 1 of our protocols pickled it for Ray. They find it in `supervisor_actor`, and its fields in
    this order.
    """

    name: str
    cluster_id: str
    bootstrap_servers: str
    security: Mapping[str, Any]
    after: str = ""
    at_home: bool = False

    @property
    def actor_name(self) -> str:
        return actor_name(self.cluster_id, self.name)


def actor_name(cluster_id: str, name: str) -> str:
    """The name of the supervisor of a pool: there is one at most on a Ray."""
    return f"{cluster_id}/{name}"


@dataclass(frozen=True, slots=True)
class SupervisorStart:
    """A supervisor's arguments, from a process that speaks `starter`. `settings` are as in a Deployment."""

    starter: Spoken
    name: str
    cluster_id: str
    bootstrap_servers: str
    settings: Mapping[str, str]
    after: str
    at_home: bool

    @classmethod
    def of(cls, spec: SupervisorSpec, starter: Spoken) -> Self:
        settings = security_texts(spec.security)
        return cls(starter, spec.name, spec.cluster_id, spec.bootstrap_servers, settings, spec.after, spec.at_home)

    @property
    def spec(self) -> SupervisorSpec:
        """The inverse of `of`."""
        security = {name: json.loads(text) for name, text in self.settings.items()}
        return SupervisorSpec(
            self.name, self.cluster_id, self.bootstrap_servers, security, self.after, at_home=self.at_home
        )

    def encoded(self) -> bytes:
        """As it goes through Ray."""
        return _CODEC.encode(self)

    @classmethod
    def decoded(cls, encoded: bytes) -> Self:
        """The inverse of `encoded`. Raises LinkError."""
        return _CODEC.read(cls, encoded)


_CODEC: Final[Codec[SupervisorStart]] = Codec("start", {1: SupervisorStart})
