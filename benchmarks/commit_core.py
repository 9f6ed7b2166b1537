"""The cost of an OffsetCommit in a shard's process without sockets: CPU time from the request's bytes to the answer's.

One thread and no other process, so that it can be measured on a busy machine; what counts is the least of many rounds.
"""

from __future__ import annotations

import gc
import time

from actors.coordinator.group_types import group_shard
from actors.coordinator.groups.config import CoordinatorConfig
from actors.coordinator.groups.messages import OffsetCommitResponse
from actors.coordinator.turn import Now, Token
from actors.group_api import Topics, offset_commit
from actors.group_api.commits import Commits
from actors.records.building import build_keyed_batch
from actors.wire.framing import RequestHeader, encode_request, frame_response
from actors.wire.messages import OffsetCommitRequest
from actors.wire.offset_columns import OffsetCommitColumns
from benchmarks.figures import Figures, Pace, Spec
from benchmarks.model import Better, Budget

VERSION = 8
REQUESTS_A_TURN = 16
TURNS_A_ROUND = 20
ROUNDS = 30
NOW = Now(1_000, 1_700_000_000_000)


CASES = {
    "one partition": (1, "", 1),
    "ten partitions": (10, "", 1),
    "a hundred partitions": (100, "", 1),
    "ten partitions, with metadata": (10, "ten letters", 1),
    "ten partitions, others each time": (10, "", 2),
}
"""Partitions, their metadata, and how many different sets of them the client commits in turns."""
SPECS = [Spec(what, "µs", Better.LESS, Budget(limit=15) if what == "ten partitions" else None) for what in CASES]


def run(figures: Figures, pace: Pace) -> None:
    """Each case in turn."""
    for _ in range(pace.turns):
        for what, (partitions, metadata, sets) in CASES.items():
            frames = [_frame(range(n % sets, n % sets + partitions), n, metadata) for n in range(REQUESTS_A_TURN)]
            figures.only_ours(what, _least_us(frames))


def _frame(partitions: range, number: int, metadata: str) -> bytes:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition
    rows = [
        partition(
            partition_index=n,
            committed_offset=1_000 * number + n,
            committed_leader_epoch=3,
            committed_metadata=metadata,
        )
        for n in partitions
    ]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="orders", partitions=rows)
    request = OffsetCommitRequest(group_id="orders-service", generation_id_or_member_epoch=-1, topics=[topic])
    return encode_request(request, VERSION, number, "client-1")[4:]


def _least_us(frames: list[bytes]) -> float:
    """Microseconds a request, in the best of many rounds."""
    core = _Core(frames)
    gc.collect()
    gc.freeze()
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        for _ in range(TURNS_A_ROUND):
            core.turn()
        best = min(best, time.process_time() - began)
    gc.unfreeze()
    return best / (TURNS_A_ROUND * REQUESTS_A_TURN) * 1e6


class _Core:
    """A shard that one client sends these commits again and again, and a log that takes everything."""

    def __init__(self, frames: list[bytes]) -> None:
        self._frames = frames
        self._commits = Commits()
        self._topics = Topics([("orders", b"o" * 16, 100)])
        self._shard = group_shard(CoordinatorConfig(), lambda: "id")
        self._shard.start_loading(0, NOW)
        self._shard.finish_loading(NOW, 0)
        self._log_end = 0
        self._answered = 0

    def turn(self) -> None:
        """Do what a shard's process does with the requests of one turn, and with the log's answer to it."""
        shard, topics = self._shard, self._topics
        asked: dict[Token, tuple[RequestHeader, OffsetCommitColumns]] = {}
        for number, frame in enumerate(self._frames, self._answered):
            header, message, request = self._commits.read(frame, topics)
            assert request is not None
            asked[number] = header, message
            shard.handle(number, request, NOW)
        while append := shard.take_records():
            build_keyed_batch(append.keys, append.values, NOW.wall_ms)
            base, self._log_end = self._log_end, self._log_end + len(append.keys)
            shard.appended(append.batch_id, base, self._log_end, NOW)
        shard.high_watermark(self._log_end, NOW)
        for token, response in shard.take_replies():
            header, message = asked.pop(token)
            assert isinstance(response, OffsetCommitResponse)
            body = offset_commit.body(message, response, VERSION, topics)
            frame_response(body, header.api_key, VERSION, header.correlation_id)
        if asked:
            raise RuntimeError(f"{len(asked)} commits were not answered")
        self._answered += REQUESTS_A_TURN
