"""DescribeAcls: the ACLs that a filter finds (KIP-140), from the last image."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.links.acl_operations import AclFilterEntry
from actors.security.acl import AclFilter
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DeleteAclsRequest, DescribeAclsRequest, DescribeAclsResponse

API = DescribeAclsRequest
VERSIONS = (1, 3)

NO_AUTHORIZER = "there are no ACLs: this broker has no authorizer"

Resource = DescribeAclsResponse.DescribeAclsResource
Description = DescribeAclsResponse.AclDescription


def handle(context: HandlerContext, request: Request) -> DescribeAclsResponse:
    """Answered at once. The ACLs of a resource stand together."""
    m: DescribeAclsRequest = request.message
    if not context.broker.authorizer.checks:
        return failed(m, request.version, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    entry = filter_entry(m)
    try:
        wanted = AclFilter.of_codes(
            entry.resource_type,
            entry.name,
            entry.pattern,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission,
        )
    except ValueError as error:
        return failed(m, request.version, ErrorCode.INVALID_REQUEST, str(error))
    resources: dict[tuple[int, str, int], Resource] = {}
    for acl in filter(wanted.matches, context.broker.authorizer.acls):
        key = int(acl.resource_type), acl.name, int(acl.pattern)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = Resource(
                resource_type=key[0], resource_name=key[1], pattern_type=key[2], acls=[]
            )
        resource.acls.append(
            Description(principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission)
        )
    return DescribeAclsResponse(error_message=None, resources=list(resources.values()))


def filter_entry(m: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilterEntry:
    """A filter as it stands in a request."""
    return AclFilterEntry(
        m.resource_type_filter,
        m.resource_name_filter,
        m.pattern_type_filter,
        m.principal_filter,
        m.host_filter,
        m.operation,
        m.permission_type,
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeAclsResponse:
    """The whole request refused."""
    return DescribeAclsResponse(error_code=code, error_message=text)
