"""The task that keeps metadata fresh, with a broker that is a function."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from actors.client.errors import AuthenticationError, KafkaConnectionError, SaslAuthenticationError
from actors.client.net.backoff import Backoff
from actors.client.net.freshness import Freshness, MetadataUser
from actors.client.net.settings import NetworkSettings
from actors.runtime.environment import REAL
from actors.wire.messages import MetadataRequest, MetadataResponse


class World(MetadataUser):
    """A user that wants one topic, and the requests that came."""

    def __init__(self, answer: Callable[[], MetadataResponse] = MetadataResponse, **settings: Any) -> None:
        made = NetworkSettings((("h", 1),), **settings)
        self.freshness = Freshness(made, Backoff(1, 1), REAL.clock.monotonic_ms, self._ask, str)
        self.answer = answer
        self.asked: list[MetadataRequest] = []
        self.heard = 0
        self.denials: list[AuthenticationError] = []

    async def _ask(self, request: MetadataRequest) -> MetadataResponse:
        self.asked.append(request)
        return self.answer()

    def wanted(self) -> frozenset[str]:
        return frozenset({"t"})

    def on_metadata(self) -> None:
        self.heard += 1

    def on_denied(self, error: AuthenticationError) -> None:
        self.denials.append(error)

    async def __aenter__(self) -> World:
        self.task = asyncio.ensure_future(self.freshness.keep(self))
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def names(request: MetadataRequest) -> list[str]:
    return [topic.name for topic in request.topics or []]


async def test_metadata_is_asked_for_when_it_is_old_or_wanted() -> None:
    async with World(metadata_max_age_ms=1) as world, asyncio.timeout(10):
        while world.heard < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    async with World() as world, asyncio.timeout(10):
        assert world.asked == []
        await world.freshness.refreshed()
        assert (world.heard, names(world.asked[0])) == (1, ["t"])


@pytest.mark.parametrize(("only_held", "creates"), [(False, True), (True, False)])
async def test_topics_that_somebody_holds_are_asked_for_too_and_may_be_created(only_held: bool, creates: bool) -> None:
    async with World(create_only_held=only_held) as world, asyncio.timeout(10):
        await world.freshness.refreshed()
        with world.freshness.holding(["u"]):
            await world.freshness.refreshed()
        await world.freshness.refreshed()
    assert [names(request) for request in world.asked] == [["t"], ["t", "u"], ["t"]]
    assert [request.allow_auto_topic_creation for request in world.asked] == [creates, True, creates]


async def test_metadata_is_kept_fresh_after_a_user_failed() -> None:
    class Failing(World):
        def on_metadata(self) -> None:
            super().on_metadata()
            if self.heard == 1:
                raise ValueError

    async with Failing() as world, asyncio.timeout(10):
        await world.freshness.refreshed()
        version = world.freshness.cluster.version
        await world.freshness.refreshed()
        assert world.freshness.cluster.version > version
    assert world.heard == 2


async def test_who_waits_goes_on_waiting_while_no_broker_answers_and_is_told_of_a_denial() -> None:
    troubles: list[Exception] = [KafkaConnectionError("gone"), KafkaConnectionError("still gone")]

    def answer() -> MetadataResponse:
        if troubles:
            raise troubles.pop(0)
        return MetadataResponse()

    async with World(answer) as world, asyncio.timeout(10):
        await world.freshness.refreshed()
        assert len(world.asked) == 3
        assert world.freshness.outage.reason == ""
        troubles.append(SaslAuthenticationError("no"))
        with pytest.raises(SaslAuthenticationError, match="no"):
            await world.freshness.refreshed()
        assert [str(error) for error in world.denials] == ["no"]
        await world.freshness.refreshed()


async def test_what_is_missing_is_asked_for_again_soon_while_somebody_wants_it() -> None:
    """Afterwards nothing is left of it that would have the client ask again."""
    missing = MetadataResponse.MetadataResponseTopic(name="u", error_code=3, topic_id=bytes(16))
    async with World(lambda: MetadataResponse(topics=[missing])) as world, asyncio.timeout(10):
        await world.freshness.refreshed()
        while len(world.asked) < 3:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        assert world.freshness.cluster.incomplete()
        world.answer = MetadataResponse
        await world.freshness.refreshed()
        assert not world.freshness.cluster.incomplete()
