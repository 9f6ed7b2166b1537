"""The topics that a producer sends to: their metadata, which `send` waits for, and which of it is kept fresh."""

from __future__ import annotations

import threading

from actors.client.errors import AuthenticationError, KafkaTimeoutError, TopicAuthorizationError
from actors.client.net.freshness import MetadataUser
from actors.client.net.metadata import TopicInfo
from actors.client.net.network import Network
from actors.client.net.peers import again
from actors.client.producer.sender import Sender
from actors.wire.errors import ErrorCode as Code


class Topics(MetadataUser):
    """`find` waits in the user's threads; the others are called on the event loop. Times are in milliseconds.

    A topic's metadata is kept fresh for `max_idle_ms` after its last send. `max_block_ms` is for the texts of errors.
    """

    def __init__(self, network: Network, sender: Sender, max_idle_ms: int, max_block_ms: int) -> None:
        self._network = network
        self._sender = sender
        self._max_idle_ms = max_idle_ms
        self._max_block_ms = max_block_ms
        self._sent_ms: dict[str, int] = {}
        self._known = threading.Condition()
        self._denials = 0
        self._denied: AuthenticationError | None = None

    def wanted(self) -> frozenset[str]:
        """The topics that were sent to lately, and those with queued batches."""
        idle = self._network.now_ms() - self._max_idle_ms
        for topic, last in list(self._sent_ms.items()):
            if last <= idle:
                self._sent_ms.pop(topic, None)
        with self._sender.room:
            queued = {tp.topic for tp, lane in self._sender.lanes.items() if not lane.empty}
        return frozenset(queued.union(list(self._sent_ms)))

    def on_metadata(self) -> None:
        with self._known:
            self._known.notify_all()
        self._sender.step()

    def on_denied(self, error: AuthenticationError) -> None:
        with self._known:
            self._denials += 1
            self._denied = error
            self._known.notify_all()

    def find(self, topic: str, deadline_ms: int) -> TopicInfo:
        """The metadata of a topic that has partitions; it was sent to now.

        Raises KafkaTimeoutError, TopicAuthorizationError, AuthenticationError.
        """
        info = self._network.cluster.topics.get(topic)
        if info is None or not info.partitions:
            with self._network.holding((topic,)):
                return self._await(topic, deadline_ms)
        self._sent_ms[topic] = self._network.now_ms()
        return info

    def _await(self, topic: str, deadline_ms: int) -> TopicInfo:
        network = self._network
        denials, version = self._denials, network.cluster.version
        while True:
            with self._known:
                info = network.cluster.topics.get(topic)
                if info is not None and info.partitions:
                    self._sent_ms[topic] = network.now_ms()
                    return info
                if self._denied is not None and self._denials != denials:
                    raise again(self._denied)
                fresh = network.cluster.version != version
                if fresh and info is not None and info.error_code == Code.TOPIC_AUTHORIZATION_FAILED:
                    raise TopicAuthorizationError(topics=[topic])
                network.soon(network.refresh)
                left = deadline_ms - network.now_ms()
                if left <= 0:
                    self._sent_ms.pop(topic, None)
                    raise KafkaTimeoutError(
                        f"topic {topic!r} was not found within max_block_ms={self._max_block_ms}: "
                        f"{self._why_not_found()}"
                    )
                self._known.wait(left / 1000)

    def _why_not_found(self) -> str:
        network = self._network
        if network.outage.reason or not network.cluster.brokers:
            return network.silence()
        if network.settings.allow_auto_create_topics:
            return "it does not exist, and the brokers do not create it"
        return "it does not exist, and allow_auto_create_topics=False"
