"""A broker's counts: requests by API with errors and latency, topics with bytes and records, stalls.

A count is an addition to a list or a table, no more: these are the hottest paths there are. The figures are made of
them when somebody asks. Not here: what happens to shards (`coordinators/history.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Container, Hashable
from typing import Any, Final

from actors.links.observations import LATENCY_BOUNDS_MS, STALL_MS, ApiFigures, Stalls, TopicFigures
from actors.wire.api_keys import ApiKey

_SAMPLED_MASK: Final = 15  # one request in sixteen
_SAMPLED: Final = frozenset(
    (
        *(ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH, ApiKey.HEARTBEAT, ApiKey.METADATA),
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    )
)
_KEYS: Final = max(ApiKey) + 1

TOPICS_MAX: Final = 2_000
"""The number of topics that are counted one by one. All others are one more."""

_NESTED: Final[dict[int, tuple[str, ...]]] = {
    ApiKey.PRODUCE: ("responses", "partition_responses"),
    ApiKey.FETCH: ("responses", "partitions"),
    ApiKey.LIST_OFFSETS: ("topics", "partitions"),
    ApiKey.METADATA: ("topics",),
    ApiKey.FIND_COORDINATOR: ("coordinators",),
    ApiKey.CREATE_TOPICS: ("topics",),
    ApiKey.DELETE_TOPICS: ("responses",),
    ApiKey.CREATE_PARTITIONS: ("results",),
    ApiKey.DELETE_RECORDS: ("topics", "partitions"),
    ApiKey.DESCRIBE_CONFIGS: ("results",),
    ApiKey.ALTER_CONFIGS: ("responses",),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses",),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("topics", "partitions"),
    ApiKey.OFFSET_FETCH: ("groups",),
    ApiKey.DESCRIBE_GROUPS: ("groups",),
    ApiKey.CONSUMER_GROUP_DESCRIBE: ("groups",),
    ApiKey.DELETE_GROUPS: ("results",),
    ApiKey.OFFSET_DELETE: ("topics", "partitions"),
    ApiKey.CREATE_ACLS: ("results",),
    ApiKey.DELETE_ACLS: ("filter_results",),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: ("results",),
}
"""The places of error codes in answers, beside the one at their top: fields of fields."""


class Latency:
    """The latencies of one API, in the buckets of LATENCY_BOUNDS_MS."""

    __slots__ = ("buckets", "count", "total_ms")

    def __init__(self) -> None:
        self.buckets = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self.count = 0
        self.total_ms = 0.0

    def add(self, seconds: float) -> None:
        """One request has taken so long."""
        ms = seconds * 1000
        self.buckets[bisect_left(LATENCY_BOUNDS_MS, ms)] += 1
        self.count += 1
        self.total_ms += ms


class RequestCounts:
    """Requests since the broker's start, by API key. `socket_server` counts `requests` itself, to save a call."""

    def __init__(self) -> None:
        self.requests = [0] * _KEYS
        self.masks = [_SAMPLED_MASK if key in _SAMPLED else 0 for key in range(_KEYS)]
        """A request is timed if the API's count has none of these bits."""
        self.latencies = [Latency() for _ in range(_KEYS)]
        self.errors: Counter[int] = Counter()
        """Requests that were answered with an error, by API key."""

    @property
    def total(self) -> int:
        """All requests."""
        return sum(self.requests)

    def failed(self, api_key: int) -> None:
        """A request was answered with an error."""
        self.errors[api_key] += 1

    def answered(self, api_key: int, response: Any) -> None:
        """A handler has made this answer. It counts if there is an error in it."""
        if getattr(response, "error_code", 0) or _any_error((response,), _NESTED.get(api_key, ())):
            self.errors[api_key] += 1

    def figures(self, errors_of_shards: Counter[int]) -> tuple[ApiFigures, ...]:
        """Each API that was asked for."""
        return tuple(
            ApiFigures(
                key,
                count,
                self.errors[key] + errors_of_shards[key],
                self.latencies[key].count,
                round(self.latencies[key].total_ms, 3),
                tuple(self.latencies[key].buckets),
            )
            for key, count in enumerate(self.requests)
            if count
        )


def _any_error(parts: Any, path: tuple[str, ...]) -> bool:
    """True if one of the parts at the end of a path has an error code."""
    for name in path:
        parts = [each for part in parts for each in getattr(part, name, None) or ()]
    return bool(path) and any(getattr(part, "error_code", 0) for part in parts)


class TopicCounts:
    """Records and bytes by topic. Beyond TOPICS_MAX topics all others are counted as one without a name."""

    def __init__(self, topics_max: int = TOPICS_MAX) -> None:
        self._topics_max = topics_max
        self._counts: dict[str, list[int]] = {}
        self._others = [0, 0, 0]
        self._left_out: set[str] = set()

    def came(self, topic: str, records: int, size_bytes: int) -> None:
        """Records were appended for a client."""
        counts = self._counts.get(topic) or self._of_new(topic)
        counts[0] += records
        counts[1] += size_bytes

    def went(self, topic: str, size_bytes: int) -> None:
        """Records were read for a client."""
        counts = self._counts.get(topic) or self._of_new(topic)
        counts[2] += size_bytes

    def _of_new(self, topic: str) -> list[int]:
        if len(self._counts) < self._topics_max:
            return self._counts.setdefault(topic, [0, 0, 0])
        self._left_out.add(topic)
        return self._others

    def figures(self, present: Container[str]) -> tuple[tuple[TopicFigures, ...], int]:
        """Those of the topics that are present, and how many were left out. Others are forgotten."""
        for topic in [each for each in self._counts if each not in present]:
            del self._counts[topic]
        self._left_out = {each for each in self._left_out if each in present}
        rows = [TopicFigures(topic, *counts) for topic, counts in self._counts.items()]
        if any(self._others):
            rows.append(TopicFigures("", *self._others))
        return tuple(rows), len(self._left_out)


class StallCounts:
    """Turns of the loop that were too long, as late ticks show them."""

    def __init__(self) -> None:
        self._count = 0
        self._total_s = self.longest_s = 0.0

    def tick_late(self, seconds: float) -> bool:
        """A tick came so late. Returns True if that counts as a stall."""
        self.longest_s = max(self.longest_s, seconds)
        if seconds * 1000 < STALL_MS:
            return False
        self._count += 1
        self._total_s += seconds
        return True

    @property
    def figures(self) -> Stalls:
        """The counts as figures."""
        return Stalls(self._count, round(self._total_s * 1000, 1), round(self.longest_s * 1000, 1))


class Counts:
    """All counts of one broker. `waiting` are the produces and deletions of records that wait for other replicas."""

    def __init__(self) -> None:
        self.requests = RequestCounts()
        self.topics = TopicCounts()
        self.stalls = StallCounts()
        self.waiting: set[Hashable] = set()
        self.integrity: Counter[str] = Counter()
        """Batches of logs that were `damaged`, those that were `mended`, and `scrubbed_bytes`."""
