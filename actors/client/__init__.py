"""Kafka clients for any broker: Consumer, Producer, Admin. Nothing here imports ray or knows our own brokers."""

from actors.client.admin import Admin
from actors.client.consumer import Consumer
from actors.client.listener import ConsumerRebalanceListener
from actors.client.producer import Producer
from actors.client.records import (
    BatchMetadata,
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TopicPartition,
)

__all__ = [
    "Admin",
    "BatchMetadata",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "RecordMetadata",
    "TopicPartition",
]
