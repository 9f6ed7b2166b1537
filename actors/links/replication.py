"""Pushes and acknowledgements as lists that msgpack carries. A partition is named by its topic's id and its index."""

from __future__ import annotations

from typing import Any, TypeAlias

from actors.log.replication import Ack, Outcome, Push

Row: TypeAlias = list[Any]


def push_row(topic_id: bytes, index: int, push: Push) -> Row:
    return [
        topic_id,
        index,
        push.leader_epoch,
        push.round,
        push.base_offset,
        push.previous_epoch,
        push.next_offset,
        push.high_watermark,
        push.log_start_offset,
        push.unclean,
        push.since,
        [list(pair) for pair in push.epochs],
        push.records,
    ]


def read_push(row: Row) -> tuple[bytes, int, Push]:
    """(topic id, index, push). Raises TypeError if the row has another length."""
    topic_id, index, *fields = row
    fields[-2] = tuple((pair[0], pair[1]) for pair in fields[-2])
    return topic_id, index, Push(*fields)


def ack_row(topic_id: bytes, index: int, ack: Ack) -> Row:
    return [
        topic_id,
        index,
        ack.leader_epoch,
        ack.round,
        int(ack.outcome),
        ack.end_offset,
        ack.high_watermark,
        [list(pair) for pair in ack.epochs],
        ack.log_start_offset,
    ]


def read_ack(row: Row) -> tuple[bytes, int, Ack]:
    """(topic id, index, acknowledgement)."""
    topic_id, index, epoch, number, outcome, end, watermark, epochs, start = row
    pairs = tuple((pair[0], pair[1]) for pair in epochs)
    return topic_id, index, Ack(epoch, number, Outcome(outcome), end, watermark, pairs, start)
