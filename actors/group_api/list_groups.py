"""ListGroups: from Kafka's message to the coordinator and back. The broker asks all its shards."""

from __future__ import annotations

from collections.abc import Iterable

from actors.coordinator.groups import messages as core
from actors.coordinator.groups.admin import list_response
from actors.group_api.topics import Topics
from actors.wire.framing import RequestHeader
from actors.wire.messages import ListGroupsRequest, ListGroupsResponse

API = ListGroupsRequest
VERSIONS = (0, 5)


def parse(header: RequestHeader, m: ListGroupsRequest, host: str, topics: Topics) -> core.ListGroupsRequest:
    return _request(m)


def _request(m: ListGroupsRequest) -> core.ListGroupsRequest:
    return core.ListGroupsRequest(tuple(m.states_filter), tuple(m.types_filter))


def listed(m: ListGroupsRequest, groups: Iterable[core.ListedGroup]) -> ListGroupsResponse:
    """The answer when these are all groups there are."""
    return _response(list_response(_request(m), groups))


def answer(m: ListGroupsRequest, r: core.ListGroupsResponse, version: int, topics: Topics) -> ListGroupsResponse:
    return _response(r)


def _response(r: core.ListGroupsResponse) -> ListGroupsResponse:
    return ListGroupsResponse(
        error_code=r.error_code,
        groups=[
            ListGroupsResponse.ListedGroup(
                group_id=g.group_id,
                protocol_type=g.protocol_type,
                group_state=g.group_state,
                group_type=g.group_type,
            )
            for g in r.groups
        ],
    )
