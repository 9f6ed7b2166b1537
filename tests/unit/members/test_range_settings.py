"""The settings of members that hold ranges for Spark and Ray Data."""

from __future__ import annotations

from typing import Any

import pytest

from actors.client.config import consumer_config
from actors.client.errors import ConfigurationError
from actors.members.ranges.group import RangeMemberSpec, member_settings


def settings(**options: Any) -> dict[str, Any]:
    return member_settings(RangeMemberSpec("g", "host:1", ("t",), options=options))


@pytest.mark.parametrize("protocol", [{}, {"group_protocol": "classic"}, {"group_protocol": "auto"}], ids=str)
@pytest.mark.parametrize("strategy", [["range"], ["sticky", "cooperative-sticky"], None])
def test_an_eager_assignor_that_a_user_gives_took_partitions_out_of_a_batch_in_hand(
    protocol: dict[str, Any], strategy: list[str] | None
) -> None:
    options = {} if strategy is None else {"partition_assignment_strategy": strategy}
    made = consumer_config(settings(**protocol, **options))
    assert list(made.partition_assignment_strategy) == ["cooperative-sticky"]


def test_a_member_of_the_consumer_protocol_has_no_assignor_of_its_own() -> None:
    assert "partition_assignment_strategy" not in settings(group_protocol="consumer")
    with pytest.raises(ConfigurationError, match="partition_assignment_strategy"):
        consumer_config(settings(group_protocol="consumer", partition_assignment_strategy=["range"]))
