"""Compaction against a naive model."""

import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.records.building import build_batch, build_sparse_batch
from actors.records.reading import iter_key_values
from tests.support.log_helpers import COMPACT, NOW_MS, clean, content, last_values, open_log, put

operations = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 99)), min_size=1, max_size=4),
        st.sampled_from(["clean", "reopen", "crash", "flush"]),
    ),
    max_size=40,
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(operations, st.sampled_from(["none", "zstd"]), st.booleans())
def test_compaction_equals_the_model(tmp_path_factory, steps, codec, idempotent):
    path = tmp_path_factory.mktemp("log")
    log = open_log(path, **COMPACT)
    model: list[tuple[int, bytes, bytes | None]] = []
    sequence = 0
    for step in steps:
        if isinstance(step, list):
            pairs = [(b"%d" % key, None if value is None else b"%d" % value) for key, value in step]
            identity = {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequence} if idempotent else {}
            put(log, *pairs, compression=codec, **identity)
            model += [(len(model) + number, key, value) for number, (key, value) in enumerate(pairs)]
            sequence += len(pairs)
        elif step == "clean":
            clean(log)
            found = content(log)
            survivors = {offset: each for offset, *each in model}
            assert all(survivors[offset] == each for offset, *each in found), "only what was written"
            newest = {key: offset for offset, key, _ in model}
            assert [offset for offset, _, _ in found] == sorted(newest.values())
        elif step == "flush":
            log.flush()
        else:
            log.close() if step == "reopen" else log.abandon()
            log = open_log(path, clean=step == "reopen", **COMPACT)
            log.advance_high_watermark(log.log_end_offset)
        assert log.log_end_offset == len(model)
        assert last_values(content(log)) == last_values(model)
    log.abandon()


def test_any_superseded_records_may_be_missing(tmp_path):
    """The loader of a shard sees the same however far compaction came (the log's side of D-13)."""
    rng = random.Random(13)
    for _ in range(30):
        records = [(b"%d" % rng.randrange(8), None if rng.random() < 0.2 else b"%d" % number) for number in range(60)]
        newest = {key: number for number, (key, _) in enumerate(records)}
        kept = [
            (number, *record, None, NOW_MS)
            for number, record in enumerate(records)
            if newest[record[0]] == number or rng.random() < 0.5
        ]
        whole = b"".join(build_batch([(*each, None, NOW_MS)]) for each in records)
        compacted = build_sparse_batch(kept, base_offset=0, last_offset_delta=59)
        assert dict(iter_key_values(compacted)) == dict(iter_key_values(whole))
