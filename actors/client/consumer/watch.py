"""The topics that a consumer needs metadata of, and the effects of new metadata. Runs on the event loop."""

from __future__ import annotations

from actors.client.consumer.fetcher import Fetcher
from actors.client.consumer.positions import Positions
from actors.client.consumer.recreation import Recreations
from actors.client.errors import AuthenticationError, InvalidTopicError, KafkaError, TopicAuthorizationError
from actors.client.group.driver import Driver
from actors.client.group.member import Subscriber
from actors.client.net.freshness import MetadataUser
from actors.client.net.metadata import ClusterMetadata
from actors.wire.errors import ErrorCode as Code


class Interest:
    """The topics of the subscription, and those of partitions that are read."""

    def __init__(self, member: Subscriber, positions: Positions) -> None:
        self._member = member
        self._positions = positions

    def wanted(self) -> frozenset[str] | None:
        """The topics whose metadata the network keeps fresh; None: all."""
        if self._member.wants_all_topics:
            return None
        return self._member.watched_topics | self._read()

    def own(self) -> frozenset[str]:
        """The topics that it subscribes to or reads."""
        return self._member.topics | self._read()

    def _read(self) -> frozenset[str]:
        return frozenset(tp.topic for tp in list(self._positions.states))


class Watch(MetadataUser):
    """Says what metadata a consumer needs, and tells its parts that there is new metadata."""

    def __init__(
        self,
        cluster: ClusterMetadata,
        interest: Interest,
        fetcher: Fetcher,
        recreations: Recreations,
        driver: Driver,
    ) -> None:
        self._cluster = cluster
        self._interest = interest
        self._fetcher = fetcher
        self._recreations = recreations
        self._driver = driver

    def wanted(self) -> frozenset[str] | None:
        return self._interest.wanted()

    def on_denied(self, error: AuthenticationError) -> None:
        self._fetcher.refuse(error)

    def on_metadata(self) -> None:
        self._fetcher.refuse(self._refusal())
        self._recreations.note()
        self._driver.on_metadata()
        self._fetcher.step()

    def _refusal(self) -> KafkaError | None:
        """The error by which polls fail: a topic that this consumer may not read, or that no broker would have."""
        if closed := self._with_code(Code.TOPIC_AUTHORIZATION_FAILED):
            return TopicAuthorizationError(topics=closed)
        if illegal := self._with_code(Code.INVALID_TOPIC_EXCEPTION):
            return InvalidTopicError(f"{illegal[0]!r} cannot be a topic's name")
        return None

    def _with_code(self, code: int) -> list[str]:
        """Those of the topics that a broker has answered with this error."""
        known = self._cluster.topics
        return sorted(t for t in self._interest.own() if t in known and known[t].error_code == code)
