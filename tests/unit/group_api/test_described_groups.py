"""DescribeGroups from the coordinator to the wire."""

from __future__ import annotations

import pytest

from actors.coordinator.classic.messages import DescribedGroup, DescribeGroupsResponse
from actors.group_api import describe_groups
from actors.group_api.topics import Topics
from actors.wire.messages import DescribeGroupsRequest


@pytest.mark.conformance("K-E-38", "K-E-39")
@pytest.mark.parametrize(
    ("version", "other_type", "error", "message"),
    [
        (5, "consumer", 0, None),
        (6, "consumer", 69, "Group g is a consumer group."),
        (5, "", 0, None),
        (6, "", 69, "Group g not found."),
    ],
)
def test_a_group_of_another_type_is_told_as_one_from_version_6_on(
    version: int, other_type: str, error: int, message: str | None
) -> None:
    described = DescribeGroupsResponse((DescribedGroup(0, "g", "Dead", other_type=other_type),))
    (group,) = describe_groups.answer(DescribeGroupsRequest(groups=["g"]), described, version, Topics({})).groups
    assert (group.error_code, group.error_message, group.group_state, group.members) == (error, message, "Dead", [])
