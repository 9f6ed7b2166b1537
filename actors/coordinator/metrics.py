"""What a shard counts. Plain numbers; naming and exporting them is the broker's."""

from dataclasses import dataclass


@dataclass(slots=True)
class Metrics:
    """Counters since the shard was made, but for those named `last` and `max`. Times in ms."""

    offset_commits: int = 0
    """Offsets committed, one for each partition."""
    offset_expirations: int = 0
    offset_deletions: int = 0
    group_expirations: int = 0
    group_deletions: int = 0
    rebalances_completed: int = 0
    members_expired: int = 0
    late_turns: int = 0
    records_loaded: int = 0
    unknown_records: int = 0
    loads: int = 0
    load_time_last_ms: int = 0
    load_time_max_ms: int = 0
    appends: int = 0
    appends_refused: int = 0
    appends_timed_out: int = 0
    replication_wait_ms: int = 0
    """From the turn that wrote to the high watermark, summed over `appends_committed`."""
    replication_wait_max_ms: int = 0
    appends_committed: int = 0
    reloads_demanded: int = 0
