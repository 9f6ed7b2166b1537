"""DeleteAcls: decided by the controller, answered when the living brokers have forgotten them (KIP-140)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.describe_acls import NO_AUTHORIZER, filter_entry
from actors.broker.handlers.forwarding import forward
from actors.links.acl_operations import AclEntry, DeleteAcls, DeletedAcls
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DeleteAclsRequest, DeleteAclsResponse

API = DeleteAclsRequest
VERSIONS = (1, 3)

Result = DeleteAclsResponse.DeleteAclsFilterResult


def handle(context: HandlerContext, request: Request) -> DeleteAclsResponse | None:
    """Each filter is answered with the ACLs that it has removed."""
    m: DeleteAclsRequest = request.message
    if not context.broker.authorizer.checks:
        return failed(m, request.version, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    filters = tuple(filter_entry(each) for each in m.filters)
    forward(context.broker, request, DeleteAcls(filters), _answer, failed)
    return None


def _answer(deleted: DeletedAcls) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            Result(
                error_code=each.error_code,
                error_message=each.error_message,
                matching_acls=[_removed(acl) for acl in each.acls],
            )
            for each in deleted.filters
        ]
    )


def _removed(acl: AclEntry) -> DeleteAclsResponse.DeleteAclsMatchingAcl:
    return DeleteAclsResponse.DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DeleteAclsResponse:
    """The whole request refused."""
    assert isinstance(message, DeleteAclsRequest)
    return DeleteAclsResponse(filter_results=[Result(error_code=code, error_message=text) for _ in message.filters])
