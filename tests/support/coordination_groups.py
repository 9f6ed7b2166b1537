"""Groups in a given state, their bytes, and the passing of days, for the tests of the coordinator. Holds no tests."""

from __future__ import annotations

from actors.coordinator.classic.records import GroupMetadata, MemberMetadata
from actors.coordinator.groups.config import CoordinatorConfig
from tests.support.coordination import (
    Client,
    Driver,
    stable_group,
    subscription,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
DELAY = CoordinatorConfig(group_initial_rebalance_delay_ms=3_000)
# Expiry looks every minute, so that a test need not think about when the run is.
MINUTELY = CoordinatorConfig(group_initial_rebalance_delay_ms=0, offsets_retention_check_interval_ms=MINUTE)
OTHER = (("range", subscription("other")),)

STAMP = 1_700_000_000_000
SUBSCRIPTION = bytes.fromhex("00000000000100066f7264657273ffffffff")
ASSIGNMENT = bytes.fromhex("00000000000100066f7264657273000000020000000000000001ffffffff")
MEMBER = MemberMetadata("c-1", None, "c", "/127.0.0.1", 300_000, 45_000, SUBSCRIPTION, ASSIGNMENT)
GROUP = GroupMetadata("consumer", 1, "range", "c-1", STAMP, (MEMBER,))


def trio(driver: Driver) -> list[Client]:
    """A stable group of three; a leads."""
    return stable_group(driver, *(Client(driver, name) for name in "abc"))


def preparing(driver: Driver) -> tuple[Client, Client, Client, Client]:
    """a, b and c were stable; d has come, so that the group prepares a rebalance, not the first one."""
    a, b, c = trio(driver)
    d = Client(driver, "d").join()
    assert driver.state() == "PreparingRebalance"
    return a, b, c, d


def completing(driver: Driver) -> list[Client]:
    """Three members that have joined but not synced; a leads."""
    members = trio(driver)
    for client in members:
        client.join()
    for client in members:
        client.joined()
    assert driver.state() == "CompletingRebalance"
    return members


def error_of(driver: Driver, token: int) -> int:
    """The error of a commit's first partition."""
    error: int = driver.answer(token).error_codes[0]
    return error


def wait(driver: Driver, ms: int) -> None:
    """Let `ms` pass on the wall clock, then have expiry look."""
    driver.now = driver.now._replace(wall_ms=driver.now.wall_ms + ms - MINUTE)
    driver.advance(MINUTE)
