"""The settings that a log goes by, with Kafka's names and defaults. `actors/settings` has their ranges and meanings."""

from dataclasses import dataclass
from typing import Final

from actors.records.compression import CODEC_IDS

MAX_LONG: Final = 2**63 - 1
DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The settings of one topic, Kafka's names with underscores for dots. Times are ms, sizes bytes.

    -1 in retention means no limit.
    """

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    delete_retention_ms: int = DAY_MS
    flush_messages: int = MAX_LONG
    flush_ms: int = MAX_LONG
    file_delete_delay_ms: int = 60_000
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_LONG
    max_decompressed_message_bytes: int = 2**31 - 9
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_LONG
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    producer_id_expiration_ms: int = DAY_MS
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1 << 30
    segment_index_bytes: int = 10 << 20
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment ends. Only a segment that has ended can be compacted (KIP-354)."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compacts else self.segment_ms

    @property
    def target_codec(self) -> int | None:
        """The number of the codec that batches are rewritten to; None if they stay as produced."""
        if self.compression_type == "producer":
            return None
        return CODEC_IDS.get(self.compression_type, 0)
