"""The counters of a shard's groups. Its process sends them to the broker; `coterie status --format json` shows them."""

from dataclasses import dataclass


@dataclass(slots=True)
class GroupMetrics:
    """Counters since the shard was loaded."""

    offset_commits: int = 0
    """Offsets committed, one for each partition."""
    offset_expirations: int = 0
    offset_deletions: int = 0
    group_expirations: int = 0
    group_deletions: int = 0
    rebalances_completed: int = 0
    """Of classic groups."""
    members_expired: int = 0
    """Members removed by their session timers, or because they did not sync in time."""
    consumer_rebalances: int = 0
    """Rises of the epochs of consumer groups by heartbeats and by expressions. Kafka does not count those by which
    members are removed."""
