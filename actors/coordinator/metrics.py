"""The counters of a shard's host. Its process sends them to the broker; `coterie status --format json` shows them."""

from dataclasses import dataclass


@dataclass(slots=True)
class Metrics:
    """Counters since the shard was loaded; maxima, and figures of the load. Times in ms."""

    late_turns: int = 0
    """Turns that came so late that members were given the time back."""
    records_loaded: int = 0
    unknown_records: int = 0
    """The number of loaded records whose types this version does not know."""
    load_time_ms: int = 0
    """From the start of the load until the shard served."""
    appends: int = 0
    appends_refused: int = 0
    appends_timed_out: int = 0
    """Not committed within `offsets.commit.timeout.ms`; they may have committed later."""
    replication_wait_ms: int = 0
    """From the turn that wrote until the high watermark passed it, summed over `appends_committed`."""
    replication_wait_max_ms: int = 0
    appends_committed: int = 0
