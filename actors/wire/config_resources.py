"""Kafka's codes for settings: what kind of resource has them, and what a change does to one."""

from __future__ import annotations

from enum import IntEnum


class ConfigResourceType(IntEnum):
    """The kinds of resources that have settings (Kafka's ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """The ways in which an incremental change treats one setting (Kafka's AlterConfigOp.OpType, KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3
