"""A client on a host: `inside.py SERVERS GROUP TOPIC`. It produces and commits until it is killed.

It writes a line for each acknowledgement, with the machine's monotonic time: `commit OFFSET TIME`, `record VALUE TIME`.
The commits are for partition 1. `single VALUE TIME` is a record in the topic TOPIC-single that the leader alone has
acknowledged (acks=1): it may be lost, but a leader that has a successor may not acknowledge it.
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

KEEPS_BROKERS = {"metadata.recovery.strategy": "none"}  # as in tests/support/librdkafka.py; this runs by itself


def told(kind: str, what: object) -> None:
    sys.stdout.write(f"{kind} {what} {time.monotonic()}\n")
    sys.stdout.flush()


def produce(servers: str, topic: str, kind: str, **settings: object) -> None:
    def delivered(error: object, message: object) -> None:
        if error is None:
            told(kind, message.value().decode())  # type: ignore[attr-defined]

    producer = Producer({"bootstrap.servers": servers, "log_level": 0, **KEEPS_BROKERS, **settings})
    for number in range(1_000_000):
        value = f"{topic}-{kind}-{number}"
        producer.produce(topic, key=value, value=value, on_delivery=delivered)
        producer.poll(0.02)


def commit(servers: str, group: str, topic: str) -> None:
    settings = {"group.id": group, "enable.auto.commit": False, "log_level": 0, **KEEPS_BROKERS}
    client = Consumer({"bootstrap.servers": servers, **settings})
    for offset in range(1, 1_000_000):
        try:
            (answer,) = client.commit(offsets=[TopicPartition(topic, 1, offset)], asynchronous=False)
        except KafkaException:
            continue
        if answer.error is None:
            told("commit", offset)


if __name__ == "__main__":
    _, to, by, name = sys.argv
    kinds = (("record", name, {"acks": "all", "enable.idempotence": True}), ("single", f"{name}-single", {"acks": 1}))
    for kind, where, settings in kinds:
        threading.Thread(target=produce, args=(to, where, kind), kwargs=settings, daemon=True).start()
    commit(to, by, name)
