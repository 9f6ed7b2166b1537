"""Arguments that a pool refuses when it is made, and slots that cannot be started. No Ray, no broker."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import ray
from hypothesis import example, given
from hypothesis import strategies as st

from actors.client import ConsumerRecord
from actors.client.config import consumer_config
from actors.client.errors import ConfigurationError
from actors.members.autoscale import Autoscale
from actors.members.pool import ConsumerPool, PoolError
from actors.members.pools import consumer_actor
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.members import PoolMembers
from actors.members.pools.plan import PoolPlan, prefix_of
from actors.members.pools.supervision import Patience
from tests.support.every_topic import EveryTopic


class NoActors:
    """In place of ConsumerActor: raises when an actor is made, as Ray does for errors that show only then."""

    def __init__(self) -> None:
        self.error: Exception = ValueError("not like this")
        self.made = 0
        self.specs: list[MemberSpec] = []

    def options(self, **_: Any) -> NoActors:
        return self

    def remote(self, spec: MemberSpec, *_: Any) -> None:
        self.made += 1
        self.specs.append(spec)
        raise self.error


@pytest.fixture(autouse=True)
def _connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(PoolMembers, "remove_members", lambda *_: None)


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> NoActors:
    actors = NoActors()
    monkeypatch.setattr(consumer_actor, "ConsumerActor", actors)
    return actors


def ignore(_: ConsumerRecord) -> None: ...


def pool(handler: Any = ignore, **settings: Any) -> ConsumerPool:
    settings = {"patience": Patience(restart_s=0.0), **settings}
    return ConsumerPool("t", "g", handler, 1, bootstrap_servers="localhost:1", ask=EveryTopic, **settings)


@pytest.mark.parametrize("servers", ["127.0.0.1", "127.0.0.1:9092,broker", "broker:http", ""])
def test_addresses_that_are_none_were_a_warning_and_then_members_without_records(servers: str) -> None:
    with pytest.raises(PoolError, match="bootstrap_servers"):
        PoolPlan.of("t", "g", ignore, 1, bootstrap_servers=servers)


@pytest.mark.parametrize("handler", [5, "print", None])
def test_a_handler_that_is_none_was_shown_as_its_type(handler: Any) -> None:
    with pytest.raises(PoolError, match=f"handler={handler!r} cannot be called"):
        PoolPlan.of("t", "g", handler, 1, bootstrap_servers="localhost:1")


def test_a_handler_that_cannot_be_pickled_is_refused_at_once(actors: NoActors) -> None:
    """The supervisor's thread died of it, and `wait` waited for ever."""
    lock = threading.Lock()

    def handle(_: ConsumerRecord) -> None:
        with lock:
            pass

    with pytest.raises(PoolError, match=r"handler cannot be pickled.*lock"):
        pool(handle)
    assert actors.made == 0


@pytest.mark.parametrize("name", ["handler_args", "value_deserializer"])
def test_so_is_all_else_that_goes_to_the_actors_and_cannot_be_pickled(actors: NoActors, name: str) -> None:
    lock = threading.Lock()
    value: Any = (lock,) if name == "handler_args" else lambda _: lock
    with pytest.raises(PoolError, match=rf"{name} cannot be pickled.*lock"):
        pool(**{name: value})
    assert actors.made == 0


def test_a_handler_that_would_never_run_starts_no_actor(actors: NoActors) -> None:
    def handle(record: ConsumerRecord) -> Any:
        yield record

    with pytest.raises(PoolError, match="handle is a generator function"):
        pool(handle)
    assert actors.made == 0


@pytest.mark.parametrize("options", [{"num_cpu": 1}, {"num_cpus": "one"}])
def test_an_actor_option_that_ray_does_not_take_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(PoolError, match=rf"ray_actor_options: .*{next(iter(options))}"):
        pool(ray_actor_options=options)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"sesion_timeout_ms": 9000}, "unknown setting 'sesion_timeout_ms'.*session_timeout_ms"),
        ({"auto_offset_reset": "first"}, "auto_offset_reset='first': must be one of latest, earliest, none"),
        ({"session_timeout_ms": 1000, "heartbeat_interval_ms": 1000}, "heartbeat_interval_ms=1000 must be below"),
    ],
)
def test_a_setting_that_consumers_refuse_is_refused_at_once(
    actors: NoActors, settings: dict[str, Any], text: str
) -> None:
    """Each actor died of it, four times, and `wait` said so afterwards."""
    with pytest.raises(ConfigurationError, match=text):
        pool(**settings)
    assert actors.made == 0


@pytest.mark.parametrize("name", ["enable_auto_commit", "group_instance_id"])
def test_a_setting_that_is_the_pools_own_is_refused(actors: NoActors, name: str) -> None:
    with pytest.raises(PoolError, match=f"{name} is not to be set here"):
        pool(**{name: None})
    assert actors.made == 0


def test_arguments_for_a_function_are_refused(actors: NoActors) -> None:
    """They were left out without a word."""
    with pytest.raises(PoolError, match="handler_args are for a handler that is a class"):
        pool(handler_args=(1,))
    assert actors.made == 0


def test_a_deserializer_is_refused_where_it_would_do_nothing(actors: NoActors) -> None:
    with pytest.raises(PoolError, match=r"value_deserializer does nothing with batch_format='pyarrow'"):
        pool(batch_format="pyarrow", value_deserializer=int)


def test_a_slot_that_cannot_be_started_is_given_up_whatever_the_error(actors: NoActors) -> None:
    with pool() as made:
        with pytest.raises(PoolError, match="member 0 has stopped: ValueError: not like this"):
            made.wait(timeout_s=60)
        (status,) = made.status()
        assert (status.state, status.error) == ("Failed", "ValueError: not like this")
        assert actors.made == 4


@pytest.mark.parametrize("error", [TimeoutError(), ray.exceptions.RayError()])
def test_an_error_without_a_text_is_told_by_its_name(actors: NoActors, error: Exception) -> None:
    actors.error = error
    with pool() as made, pytest.raises(PoolError, match=type(error).__name__):
        made.wait(timeout_s=60)


def test_a_call_does_not_leave_out_a_member_that_cannot_be_started(actors: NoActors) -> None:
    with pool() as made, pytest.raises(PoolError, match="member 0 has stopped: ValueError: not like this"):
        made.call("count")


@pytest.mark.conformance("XE-35")
@pytest.mark.parametrize("name", ["sasl_plain_password", "ssl_password", "ssl_keydata"])
def test_a_secret_does_not_go_to_the_actors_and_the_error_says_what_does(actors: NoActors, name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{name} does not travel to a pool's actors: name .*file") as raised:
        pool(**{name: "swordfish"})
    assert "swordfish" not in str(raised.value)


@pytest.mark.parametrize(
    ("size", "autoscale", "text"),
    [
        (None, None, "size or autoscale"),
        (0, None, "size must be at least 1"),
        (3, Autoscale(max_size=2, target_lag=1), "between min_size and max_size, 1 and 2, got 3"),
    ],
)
def test_a_size_that_makes_no_sense_is_refused(
    actors: NoActors, size: int | None, autoscale: Autoscale | None, text: str
) -> None:
    with pytest.raises(PoolError, match=text):
        ConsumerPool("t", "g", ignore, size, bootstrap_servers="localhost:1", autoscale=autoscale)
    assert actors.made == 0


@pytest.mark.parametrize(("low", "size", "first"), [(0, None, 1), (2, None, 2), (0, 0, 0), (1, 3, 3)])
def test_a_pool_that_follows_its_load_begins_with_its_least_size_and_is_not_resized_by_hand(
    actors: NoActors, low: int, size: int | None, first: int
) -> None:
    policy = Autoscale(min_size=low, max_size=4, target_lag=1, interval_s=3600)
    with ConsumerPool(
        "t", "g", ignore, size, bootstrap_servers="localhost:1", ask=EveryTopic, autoscale=policy
    ) as made:
        assert len(made.status()) == first
        with pytest.raises(PoolError, match="follows its load"):
            made.resize(2)


def test_each_change_of_size_is_told_with_its_reason(actors: NoActors) -> None:
    with pool() as made:
        made.resize(3)
        made.resize(3)
        made.resize(2)
        changes = made.size_changes()
    assert [(each.before, each.after) for each in changes] == [(0, 1), (1, 3), (3, 2)]
    assert [each.reason for each in changes] == ["the pool begins", "resize was called", "resize was called"]


# --- the topic of dead letters --------------------------------------------------------------------------------------


@pytest.mark.parametrize("topics", ["t", ["t"], ("other", "t")])
def test_a_dead_letter_topic_among_the_pools_own_is_refused(actors: NoActors, topics: str | list[str]) -> None:
    """One record became 2,279 in twenty seconds."""
    with pytest.raises(PoolError, match="dead_letter_topic 't' is one of the pool's own topics"):
        ConsumerPool(topics, "g", ignore, 1, bootstrap_servers="localhost:1", dead_letter_topic="t")
    assert actors.made == 0


@pytest.mark.parametrize("name", ["", "a/b", "..", "x" * 250])
def test_a_dead_letter_topic_that_no_topic_can_be_called_is_refused(actors: NoActors, name: str) -> None:
    with pytest.raises(PoolError, match="dead_letter_topic: "):
        pool(dead_letter_topic=name)
    assert actors.made == 0


# --- instance ids ---------------------------------------------------------------------------------------------------


_STRANGE = [
    "a/b",
    "a:b",
    "a_b",
    "eu:shop/billing 2",
    "Bestellungen f\u00fcr sp\u00e4ter",
    "\u2026",
    "x/" * 300,
    "x/" * 299 + "x:",
]


def named(actors: NoActors, group_id: str) -> str:
    """The instance id of a pool's only member."""
    with ConsumerPool("t", group_id, ignore, 1, bootstrap_servers="localhost:1", ask=EveryTopic) as made:
        with pytest.raises(PoolError):
            made.wait(timeout_s=60)
    return str(actors.specs[-1].options["group_instance_id"])


def check_id(group_id: str, instance_id: str) -> None:
    """Raise ConfigurationError if a consumer refuses it."""
    consumer_config({"group_id": group_id, "group_instance_id": instance_id})


def test_a_group_id_that_an_instance_id_may_not_have_starts_its_members(actors: NoActors) -> None:
    """They failed four times, with a complaint about group_instance_id, which the user had never set."""
    ids = [named(actors, group_id) for group_id in _STRANGE]
    for group_id, instance_id in zip(_STRANGE, ids, strict=True):
        check_id(group_id, instance_id)
    assert len({instance_id.removesuffix("-0")[:-8] for instance_id in ids}) == len(ids), "none looks like another"


@given(st.text(min_size=1), st.text(min_size=1))
@example("a/b", "a:b")
def test_whatever_a_group_is_called_its_members_have_legal_ids_of_their_own(group_id: str, other: str) -> None:
    check_id(group_id, f"{prefix_of(group_id)}-{'0' * 8}-99999")
    assert group_id == other or prefix_of(group_id) != prefix_of(other)


@pytest.mark.parametrize("group_id", ["billing", "a.B_c-9", "..", "x" * 600])
def test_where_a_group_id_was_legal_members_are_called_as_before(group_id: str) -> None:
    assert prefix_of(group_id) == group_id[:230]


@pytest.mark.parametrize("prefix", ["a/b", "a:b", "\u00fc", " "])
def test_an_instance_prefix_with_other_characters_is_refused_at_once(actors: NoActors, prefix: str) -> None:
    """The members failed four times, with a complaint about group_instance_id."""
    with pytest.raises(PoolError, match="instance_prefix may have a-z, A-Z, 0-9"):
        pool(instance_prefix=prefix)
    assert actors.made == 0
