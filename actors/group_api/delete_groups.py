"""DeleteGroups: from Kafka's message to the coordinator and back. The broker asks each shard for its own groups."""

from __future__ import annotations

from actors.coordinator.groups import messages as core
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import DeleteGroupsRequest, DeleteGroupsResponse

API = DeleteGroupsRequest
VERSIONS = (0, 3)


def parse(header: RequestHeader, m: DeleteGroupsRequest, host: str, topics: Topics) -> core.DeleteGroupsRequest:
    return core.DeleteGroupsRequest(tuple(m.groups_names))


def answer(m: DeleteGroupsRequest, r: core.DeleteGroupsResponse, version: int, topics: Topics) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeleteGroupsResponse.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in r.results
        ]
    )
