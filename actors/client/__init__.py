"""Kafka clients for any broker: Consumer, Producer, Admin. Nothing here imports ray or knows our own brokers."""
