"""The fields that say which member a line in a log is about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.runtime.logs import Fields, about

if TYPE_CHECKING:
    from actors.client.records import ConsumerGroupMetadata


def about_member(found: ConsumerGroupMetadata) -> dict[str, Fields]:
    """The `extra` of a log call: the group, and the member and its generation once the coordinator has given them."""
    if not found.member_id:
        return about(group=found.group_id)
    return about(group=found.group_id, member=found.member_id, generation=found.generation_id)
