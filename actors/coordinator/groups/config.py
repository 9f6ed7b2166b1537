"""The broker settings that govern group coordination, by Kafka's names with underscores.

Ranges and documentation stand in `actors.settings`. The defaults are repeated here only so that a test can make a shard
without settings.
"""

from dataclasses import dataclass

from actors.coordinator.writer import WriteLimits

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""The longest that a member may wait in its first join phase. Fixed in Kafka as well."""

ANNOUNCED_WAIT_MS = 2_000
"""The time for which a rebalance of a group with members waits for more newcomers, if the first ones have announced
them.
"""

HISTORY_LENGTH = 20
"""The number of rebalances of each group that are remembered."""


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """Times in ms unless the name says otherwise; sizes in bytes."""

    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_topic_compression_codec: int = 0
    """Kafka's number of the codec; the shard's process compresses its appends with it."""
    max_message_bytes: int = 1_048_588
    """The largest record batch that the offsets topic takes. Records of a turn beyond it go into further appends."""

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @property
    def write_limits(self) -> WriteLimits:
        """The limits of the shard's writer."""
        return WriteLimits(self.offsets_commit_timeout_ms, self.max_message_bytes)
