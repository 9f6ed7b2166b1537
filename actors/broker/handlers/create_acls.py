"""CreateAcls: decided by the controller, answered when the living brokers go by them (KIP-140)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.describe_acls import NO_AUTHORIZER
from actors.broker.handlers.forwarding import forward
from actors.links.acl_operations import AclEntry, CreateAcls, CreatedAcls
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, CreateAclsRequest, CreateAclsResponse

API = CreateAclsRequest
VERSIONS = (1, 3)

Result = CreateAclsResponse.AclCreationResult


def handle(context: HandlerContext, request: Request) -> CreateAclsResponse | None:
    """An ACL that is there already is no error. Those that are refused do not hold up the others."""
    m: CreateAclsRequest = request.message
    if not context.broker.authorizer.checks:
        return failed(m, request.version, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)
    entries = tuple(
        AclEntry(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in m.creations
    )
    forward(context.broker, request, CreateAcls(entries), _answer, failed)
    return None


def _answer(created: CreatedAcls) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[Result(error_code=acl.error_code, error_message=acl.error_message) for acl in created.acls]
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> CreateAclsResponse:
    """The whole request refused."""
    assert isinstance(message, CreateAclsRequest)
    return CreateAclsResponse(results=[Result(error_code=code, error_message=text) for _ in message.creations])
