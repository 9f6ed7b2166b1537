"""The group protocol of the consumers that Coterie makes itself."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.by_default import by_default, kept_classic, tell_kept_classic
from actors.client.config import OF_CLASSIC_GROUPS, consumer_config

OURS = {"partition_assignment_strategy": ["cooperative-sticky"]}
VALUES: dict[str, Any] = {
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": 500,
    "partition_assignment_strategy": ["range"],
}


def test_without_a_wish_it_is_the_one_that_the_coordinator_serves() -> None:
    found = consumer_config({"group_id": "g", **by_default({"client_id": "c"}, OURS)})
    assert found.group_protocol == "auto"
    assert found.client_id == "c"
    assert found.partition_assignment_strategy == ["cooperative-sticky"], "if it has to be a classic one"
    assert found.group_instance_takeover is True


def test_each_setting_of_classic_groups_keeps_members_classic() -> None:
    assert set(VALUES) == set(OF_CLASSIC_GROUPS)


@pytest.mark.parametrize("name", VALUES)
def test_a_setting_of_classic_groups_keeps_members_classic_and_one_line_names_it(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = {name: VALUES[name]}
    found = consumer_config({"group_id": "g", **by_default(options, OURS)})
    assert (found.group_protocol, getattr(found, name)) == ("classic", VALUES[name])
    tell_kept_classic(options, "billing")
    (line,) = caplog.messages
    assert "group billing" in line
    assert f"since {name} is set" in line


@pytest.mark.parametrize("chosen", ["classic", "consumer", "Consumer", "auto"])
def test_a_protocol_that_is_chosen_stays_and_nothing_is_said(chosen: str, caplog: pytest.LogCaptureFixture) -> None:
    options = {"group_protocol": chosen}
    found = consumer_config({"group_id": "g", **by_default(options, OURS)})
    assert found.group_protocol == chosen.lower()
    tell_kept_classic(options, "g")
    assert caplog.messages == []


def test_an_absent_value_is_no_wish() -> None:
    options = {"group_protocol": None, "session_timeout_ms": None}
    assert kept_classic(options) == ""
    assert by_default(options)["group_protocol"] == "auto"
