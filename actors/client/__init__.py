"""Kafka clients for any broker: Consumer, Producer, Admin. Nothing here imports ray or our own brokers."""

from actors.client.admin.admin import Admin
from actors.client.consumer.consumer import Consumer
from actors.client.consumer.listener import ConsumerRebalanceListener
from actors.client.producer.producer import Producer
from actors.client.records import (
    BatchMetadata,
    ConsumerGroupMetadata,
    ConsumerRecord,
    GroupMembershipOperation,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    SubscriptionPattern,
    TopicPartition,
)

__all__ = [
    "Admin",
    "BatchMetadata",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "GroupMembershipOperation",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
]
