"""A pool asks for its topics before it begins. No broker: the Admin is a fake."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any

import pytest

from actors.client.admin.types import NewTopic
from actors.client.errors import (
    ClusterAuthorizationError,
    ConfigurationError,
    KafkaError,
    NoBrokersAvailable,
    SaslAuthenticationError,
    SecurityProtocolError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from actors.members.pools.handler_member import MemberSpec
from actors.members.pools.plan import PoolError, PoolPlan
from actors.members.pools.topics_there import check_topics
from tests.support.every_topic import EveryTopic


class Topics(EveryTopic):
    """Brokers with these topics, of which some appear only when they are asked for the second time."""

    def __init__(self, *there: str, late: Iterable[str] = (), error: KafkaError | None = None) -> None:
        super().__init__()
        self.there = set(there)
        self.late = set(late)
        self.error = error
        self.refusal: KafkaError | None = None
        self.created: list[str] = []

    def __call__(self, **settings: Any) -> Topics:
        self.settings = settings
        return self

    def describe_topics(self, topics: Iterable[str], timeout_ms: int) -> list[Any]:
        if self.error is not None:
            raise self.error
        for topic in topics:
            if topic not in self.there:
                self.there |= self.late & {topic}
                raise UnknownTopicOrPartitionError(topic)
        return []

    def create_topics(self, topics: Iterable[NewTopic], timeout_ms: int, raise_errors: bool) -> dict[str, Any]:
        names = [topic.name for topic in topics]
        self.created += names
        return dict.fromkeys(names, self.refusal)


def spec(*topics: str, **more: Any) -> MemberSpec:
    return MemberSpec(topics, "billing", "broker:9092", **more)


def check(asked: MemberSpec, admin: Topics, *, create: bool = False) -> None:
    check_topics(asked, create=create, admin=admin, pauses=(0.0,))


def test_a_typo_in_a_pools_topic_became_a_topic_without_a_word() -> None:
    admin = Topics("orders")
    with pytest.raises(PoolError, match=r"there is no topic 'oders' at broker:9092: .* create_topic=True"):
        check(spec("orders", "oders"), admin)
    assert admin.created == []


def test_so_did_one_in_its_dead_letter_topic() -> None:
    with pytest.raises(PoolError, match="there is no topic 'daed'"):
        check(spec("orders", dead_letter_topic="daed"), Topics("orders", "dead"))


def test_topics_that_are_wanted_are_created() -> None:
    admin = Topics("orders")
    check(spec("orders", "new", dead_letter_topic="dead"), admin, create=True)
    assert admin.created == ["new", "dead"]


def test_a_topic_that_another_pool_creates_just_now_is_as_good() -> None:
    admin = Topics()
    admin.refusal = TopicAlreadyExistsError("it exists")
    check(spec("new"), admin, create=True)


def test_a_topic_that_may_not_be_created_is_an_error_of_the_pool() -> None:
    admin = Topics()
    admin.refusal = ClusterAuthorizationError("CREATE is not allowed")
    with pytest.raises(PoolError, match="CREATE is not allowed"):
        check(spec("new"), admin, create=True)


def test_a_topic_that_was_created_a_moment_ago_is_found() -> None:
    check(spec("orders"), Topics(late=["orders"]))


@pytest.mark.parametrize(
    "error",
    [
        NoBrokersAvailable("no broker can be reached; check bootstrap_servers (Connection refused)"),
        SecurityProtocolError("the broker expects TLS here: set security_protocol to SASL_SSL or SSL"),
        SaslAuthenticationError("logging in as 'x' by SCRAM-SHA-512 failed"),
    ],
)
def test_a_pool_without_a_way_to_its_brokers_said_nothing(error: KafkaError) -> None:
    with pytest.raises(PoolError, match=r"the pool of group 'billing' cannot begin: ") as caught:
        check(spec("orders"), Topics(error=error))
    assert str(error) in str(caught.value)
    assert "direct cause" not in "".join(traceback.format_exception(caught.value)), "one paragraph"


def test_a_password_that_the_members_machines_alone_have_is_left_to_them(caplog: pytest.LogCaptureFixture) -> None:
    def nowhere(**_: Any) -> Any:
        raise ConfigurationError("sasl_password_file=/run/password: No such file or directory on laptop")

    check_topics(spec("orders"), create=False, admin=nowhere)
    assert "cannot be looked for from here: sasl_password_file=" in caplog.text


def test_the_brokers_are_asked_as_the_members_will_ask_them() -> None:
    admin = Topics("orders")
    security = {"security_protocol": "SASL_SSL", "sasl_plain_username": "ann"}
    check(spec("orders", options={**security, "max_poll_records": 5}), admin)
    assert admin.settings == {"bootstrap_servers": "broker:9092", "client_id": "coterie-pool", **security}


@pytest.mark.parametrize(
    ("topics", "group_id", "said"),
    [
        ("orders", "", "group_id must not be empty"),
        ((), "g", "at least one topic"),
        ("a/b", "g", "topics: topic name 'a/b' is illegal"),
        (("orders", ""), "g", "topics: a topic name cannot be empty"),
    ],
)
def test_names_that_no_broker_takes_are_refused_when_a_pool_is_made(topics: Any, group_id: str, said: str) -> None:
    """The actors died of them four times, or their members ran and got nothing."""
    with pytest.raises(PoolError, match=said):
        PoolPlan.of(topics, group_id, print, 1, bootstrap_servers="broker:9092")
