"""Group protocols that are not served: real clients that ask for them are told, and soon."""

from __future__ import annotations

import time

import confluent_kafka

from tests.compat.driving import OPERATION_TIMEOUT_S
from tests.compat.peers import Peer
from tests.compat.raw import create_topics
from tests.compat.support import ONE_PROCESS

pytestmark = ONE_PROCESS


def test_librdkafka_with_the_consumer_protocol_says_that_it_is_not_served(kafka: Peer, name: str) -> None:
    """It waited for the API to appear in ApiVersions, and its user saw nothing."""
    create_topics(kafka.bootstrap_servers, {name: 1})
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": name, "group.protocol": "consumer"}
    consumer = confluent_kafka.Consumer(settings)
    try:
        consumer.subscribe([name])
        deadline = time.monotonic() + OPERATION_TIMEOUT_S
        said = ""
        while not said and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            error = message.error() if message is not None else None
            if error is not None and error.code() == confluent_kafka.KafkaError._FATAL:
                said = error.str()
        assert "API version not supported" in said
    finally:
        consumer.close()
