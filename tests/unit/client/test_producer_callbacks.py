"""Callbacks of produced records are the user's: what one raises is no affair of the others."""

from __future__ import annotations

import pytest

from actors.client.errors import KafkaError
from actors.client.producer.accumulator import Batch
from actors.client.records import TopicPartition
from actors.records.growing import GrowingBatch


@pytest.mark.parametrize("error", [None, KafkaError("refused")])
def test_a_callback_that_raises_keeps_no_other_of_its_batch_from_being_called(
    error: KafkaError | None, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[str] = []

    def fails(batch: Batch) -> None:
        called.append("first")
        raise RuntimeError("of the user's")

    batch = Batch(TopicPartition("t", 0), GrowingBatch(0), 0)
    batch.callbacks += [fails, lambda batch: called.append("second")]
    if error is None:
        batch.finish(7, -1)
    else:
        batch.fail(error)
    assert called == ["first", "second"]
    assert "a callback of a produced record failed" in caplog.text
