"""The methods of `Admin` for ACLs (KIP-140), on the event loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from actors.client.admin.brokers import Brokers, Outcomes, outcome
from actors.client.error_codes import error_for, is_retriable
from actors.client.errors import IllegalStateError, KafkaError
from actors.security.acl import Acl, AclFilter
from actors.wire.messages import (
    ApiMessage,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)


class Acls:
    """Creates, finds and removes ACLs. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def create(self, acls: Iterable[Acl], deadline: int) -> Outcomes[Acl]:
        """Create ACLs. One that is there already is no error."""
        wanted = list(dict.fromkeys(acls))
        request = CreateAclsRequest(
            creations=[
                CreateAclsRequest.AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    resource_pattern_type=acl.pattern,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in wanted
            ]
        )
        response = await self._ask(request, lambda response: response.results, deadline)
        return {
            acl: outcome(result.error_code, "creating an ACL", result.error_message)
            for acl, result in zip(wanted, response.results, strict=True)
        }

    async def describe(self, wanted: AclFilter, deadline: int) -> list[Acl]:
        """The ACLs that a filter finds."""
        request = DescribeAclsRequest(**_fields(wanted))
        response = await self._ask(request, lambda response: [response], deadline)
        if response.error_code:
            raise error_for(response.error_code, "finding ACLs", response.error_message)
        return [_described(resource, acl) for resource in response.resources for acl in resource.acls]

    async def delete(self, filters: Iterable[AclFilter], deadline: int) -> dict[AclFilter, list[Acl] | KafkaError]:
        """Remove the ACLs that each filter finds; which these were."""
        wanted = list(dict.fromkeys(filters))
        request = DeleteAclsRequest(filters=[DeleteAclsRequest.DeleteAclsFilter(**_fields(each)) for each in wanted])
        response = await self._ask(request, lambda response: response.filter_results, deadline)
        return {each: _removed(result) for each, result in zip(wanted, response.filter_results, strict=True)}

    async def _ask(self, request: ApiMessage, results: Any, deadline: int) -> Any:
        """The answer of a broker, once none of its results has a retriable error."""

        async def attempt() -> Any:
            response = await self._brokers.ask_controller(lambda timeout: request, deadline)
            for result in results(response):
                if is_retriable(result.error_code):
                    raise error_for(result.error_code, "asking about ACLs", result.error_message)
            return response

        return await self._brokers.again(attempt, deadline)


def _fields(wanted: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _described(resource: DescribeAclsResponse.DescribeAclsResource, acl: DescribeAclsResponse.AclDescription) -> Acl:
    return _acl(
        resource.resource_type,
        resource.resource_name,
        resource.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission_type,
    )


def _removed(result: Any) -> list[Acl] | KafkaError:
    failed = next((each for each in (result, *result.matching_acls) if each.error_code), None)
    if failed is not None:
        return error_for(failed.error_code, "removing ACLs", failed.error_message)
    return [
        _acl(a.resource_type, a.resource_name, a.pattern_type, a.principal, a.host, a.operation, a.permission_type)
        for a in result.matching_acls
    ]


def _acl(*row: Any) -> Acl:
    try:
        return Acl.of_row(row)
    except ValueError as error:
        raise IllegalStateError(f"the broker has an ACL that this client does not know: {error}") from error
