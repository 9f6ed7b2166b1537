"""The defaults are Kafka's."""

from __future__ import annotations

from actors.coordinator.groups.config import CoordinatorConfig
from tests.support.coordination import NO_DELAY


def test_defaults() -> None:
    config = CoordinatorConfig()
    assert config.group_initial_rebalance_delay_ms == 3_000
    assert (config.group_min_session_timeout_ms, config.group_max_session_timeout_ms) == (6_000, 1_800_000)
    assert config.group_max_size == 2_147_483_647
    assert (config.offsets_retention_minutes, config.offsets_retention_check_interval_ms) == (10_080, 600_000)
    assert (config.offset_metadata_max_bytes, config.offsets_commit_timeout_ms) == (4_096, 5_000)
    assert NO_DELAY.group_initial_rebalance_delay_ms == 0
