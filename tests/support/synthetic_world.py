"""The groups and topics that a cluster has which does not exist. Holds no tests."""

from __future__ import annotations

from dataclasses import dataclass

NODES = ("3f2a9c41d07be55a", "b81e04f6aa2c9913", "07c5d2e8814fbb60")
HOSTS = ("10.0.0.11", "10.0.0.12", "10.0.0.13")
MINUTE = 60_000
HOUR = 60 * MINUTE


@dataclass(frozen=True)
class Made:
    """A group that is made up."""

    name: str
    state: str
    kind: str
    members: int
    topics: tuple[str, ...]
    lag: int
    rate: float
    """Records in a second, from which the lag in seconds follows."""
    swing: float = 0.3
    rebalances: int = 0


GROUPS = (
    Made("billing", "Stable", "consumer", 4, ("orders", "payments"), 18_420, 210.0, 0.6, 3),
    Made("shipping", "PreparingRebalance", "pool", 5, ("orders",), 3_180, 160.0, 0.5, 4),
    Made("archive", "Stable", "spark", 3, ("orders", "payments", "clicks"), 96_300, 1400.0, 0.8, 1),
    Made("fraud-scores", "Stable", "pool", 8, ("payments",), 42, 310.0, 0.9, 0),
    Made("recommendations", "Stable", "pool", 6, ("clicks",), 1_260_400, 2300.0, 0.2, 2),
    Made("search-index", "Stable", "consumer", 2, ("products",), 0, 12.0, 0.0, 0),
    Made("emails", "Stable", "consumer", 3, ("orders",), 15, 80.0, 0.7, 1),
    Made("warehouse-sync", "CompletingRebalance", "consumer", 2, ("stock",), 730, 25.0, 0.4, 6),
    Made("nightly-report", "Empty", "spark", 0, ("payments",), 512_000, 0.0, 0.1, 0),
    Made("audit", "Empty", "simple", 0, ("logins",), 88, 0.0, 0.0, 0),
    Made("experiments", "Empty", "consumer", 0, ("clicks",), 4_020_113, 0.0, 0.05, 0),
    Made("gps-smoothing", "Stable", "pool", 12, ("positions",), 5_900, 4200.0, 0.5, 1),
)
TOPICS = {
    "clicks": (24, 3, 48_200_114, 230),
    "logins": (3, 3, 901_233, 140),
    "orders": (6, 3, 2_812_007, 410),
    "payments": (6, 3, 1_904_551, 350),
    "positions": (48, 1, 310_882_910, 96),
    "products": (3, 3, 88_120, 1800),
    "stock": (4, 3, 402_913, 220),
}
"""Partitions, replicas, records and bytes of a record."""


def member_id(made: Made, n: int) -> str:
    return f"{client_id(made, n)}-{(n * 0x9E3779B1 + 0x3F21C07A) % 2**32:08x}-1a41-441d-831e-85f266afbc{n:02x}"


def client_id(made: Made, n: int) -> str:
    return {"pool": f"{made.name}-{n}", "spark": f"spark-{made.name}-{n}"}.get(made.kind, f"{made.name}-api")
