"""The plan of a pool, checked before anything is started: its members' settings, its handler, its size."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, Final, Self

from ray import cloudpickle

from actors import CoterieError
from actors.client.by_default import tell_kept_classic
from actors.client.net.security import refuse_secrets
from actors.client.net.settings import parse_bootstrap
from actors.members.autoscale import Autoscale
from actors.members.pools import pickling
from actors.members.pools.consumer_actor import ActorStarter
from actors.members.pools.handler_member import DESERIALIZERS, MemberSpec
from actors.members.pools.handling import shape
from actors.members.pools.slots import Version
from placement.metadata import topic_name_error

PREFIX_MAX: Final = 230
"""Of the 249 characters an instance id may have."""
_ILLEGAL: Final = re.compile(r"[^a-zA-Z0-9._-]")
_DIGEST: Final = 8
_FORMATS: Final = ("record", "records", "pyarrow")
_OF_MEMBERS: Final = {field.name for field in fields(MemberSpec)} - {"topics", "group_id", "options", "version"}


class PoolError(CoterieError, RuntimeError):
    """A pool cannot be made, or cannot go on; the text says what is wrong, or which member failed and why."""


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool before it begins. Made by `of`, which checks it."""

    spec: MemberSpec
    handler: Any
    ray_actor_options: Mapping[str, Any] | None
    first_size: int
    autoscale: Autoscale | None

    @classmethod
    def of(
        cls,
        topics: str | Sequence[str],
        group_id: str,
        handler: Callable[..., Any] | type,
        size: int | None,
        *,
        autoscale: Autoscale | None = None,
        ray_actor_options: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Self:
        """`settings` are those fields of MemberSpec that have names of their own here, and options of Consumer.

        Raises PoolError and ConfigurationError if they make no sense, or cannot be sent to actors.
        """
        first_size = _first_size(size, autoscale)
        own = {name: value for name, value in settings.items() if name in _OF_MEMBERS}
        own["producer_options"] = dict(own.get("producer_options") or {})
        own["handler_args"] = tuple(own.get("handler_args", ()))
        options = {name: value for name, value in settings.items() if name not in _OF_MEMBERS}
        names = (topics,) if isinstance(topics, str) else tuple(topics)
        spec = MemberSpec(names, group_id, options=options, **own)
        _check(spec)
        pickled = {"handler_args": spec.handler_args, "producer_options": spec.producer_options, **options}
        for name, value in {"handler": handler, **pickled}.items():
            if problem := pickling.problem(name, value, cloudpickle.dumps):
                raise PoolError(problem)
        if spec.handler_args and not inspect.isclass(handler):
            raise PoolError("handler_args are for a handler that is a class: give a function what it needs by partial")
        if problem := shape.problem(handler, spec.handler_args, spec.batch_format) or shape.deserializer_problem(
            options
        ):
            raise PoolError(problem)
        tell_kept_classic(options, group_id)
        return cls(spec, handler, ray_actor_options, first_size, autoscale)

    def version(self, mark: str = "", number: int = 0) -> Version:
        """The version to start members with. Raises PoolError if Ray does not know an option of the actors."""
        try:
            return Version(self.spec, ActorStarter(self.handler, self.ray_actor_options), mark, number)
        except (TypeError, ValueError) as error:
            raise PoolError(f"ray_actor_options: {error}") from None


def _check(spec: MemberSpec) -> None:
    if not spec.group_id:
        raise PoolError("group_id must not be empty: the members of a pool divide its topics as a group")
    try:
        parse_bootstrap(spec.bootstrap_servers)
    except ValueError as error:
        raise PoolError(str(error)) from None
    if not spec.topics:
        raise PoolError("a pool needs at least one topic")
    for topic in spec.topics:
        if problem := topic_name_error(topic):
            raise PoolError(f"topics: {problem}")
    if spec.batch_format not in _FORMATS:
        raise PoolError(f"batch_format must be 'record', 'records' or 'pyarrow', got {spec.batch_format!r}")
    for name in DESERIALIZERS:
        if spec.batch_format == "pyarrow" and spec.options.get(name) is not None:
            raise PoolError(f"{name} does nothing with batch_format='pyarrow': its keys and values are bytes")
    _check_dead_letters(spec)
    refuse_secrets(spec.options, "a pool's actors")
    if problem := spec.problem():
        raise PoolError(problem)


def _check_dead_letters(spec: MemberSpec) -> None:
    if (topic := spec.dead_letter_topic) is None:
        return
    if problem := topic_name_error(topic):
        raise PoolError(f"dead_letter_topic: {problem}")
    if topic in spec.topics:
        raise PoolError(
            f"dead_letter_topic {topic!r} is one of the pool's own topics: each dead letter would come back, "
            "fail again and become another one"
        )


def no_pool(name: str) -> PoolError:
    """Nobody has deployed a pool of this name."""
    return PoolError(f"there is no pool called {name!r}: `coterie pools list` shows those there are")


def check_prefix(prefix: str, name: str = "instance_prefix") -> None:
    """Raise PoolError if members' instance ids cannot begin so."""
    if not 0 < len(prefix) <= PREFIX_MAX:
        raise PoolError(f"{name} must have 1 to {PREFIX_MAX} characters, got {len(prefix)}")
    if _ILLEGAL.search(prefix):
        raise PoolError(f"{name} may have a-z, A-Z, 0-9, '.', '_' and '-' alone, got {prefix!r}")


def prefix_of(group_id: str) -> str:
    """The prefix of the instance ids of a group's members: the group's id, as far as an instance id may have it.

    Where it has other characters, it ends with a digest, so that groups which look alike then stay apart.
    """
    if not _ILLEGAL.search(group_id):
        return group_id[:PREFIX_MAX]
    digest = sha256(group_id.encode(errors="surrogatepass")).hexdigest()[:_DIGEST]
    return f"{_ILLEGAL.sub('_', group_id)[: PREFIX_MAX - _DIGEST - 1]}-{digest}"


def _first_size(size: int | None, autoscale: Autoscale | None) -> int:
    """The size to begin with. Raises PoolError if it makes no sense."""
    if autoscale is None:
        if size is None:
            raise PoolError("size or autoscale must be given")
        if size < 1:
            raise PoolError(f"size must be at least 1, got {size}")
        return size
    low, high = autoscale.min_size, autoscale.max_size
    if size is not None and not low <= size <= high:
        raise PoolError(f"size must be between min_size and max_size, {low} and {high}, got {size}")
    return max(low, 1) if size is None else size
