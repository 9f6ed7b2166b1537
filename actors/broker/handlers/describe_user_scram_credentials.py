"""DescribeUserScramCredentials: who has a password, for which mechanisms (KIP-554). Nothing of the password is told."""

from __future__ import annotations

from collections import Counter

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import (
    ApiMessage,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

API = DescribeUserScramCredentialsRequest
VERSIONS = (0, 0)

Result = DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult
Info = DescribeUserScramCredentialsResponse.CredentialInfo


def handle(context: HandlerContext, request: Request) -> DescribeUserScramCredentialsResponse:
    """Answered from the last image. No users, or none named, means all."""
    m: DescribeUserScramCredentialsRequest = request.message
    infos: dict[str, list[Info]] = {}
    for (user, mechanism), (_, _, _, iterations) in sorted(context.broker.metadata.scram.items()):
        infos.setdefault(user, []).append(Info(mechanism=mechanism, iterations=iterations))
    asked = Counter(each.name for each in m.users or [])
    if not asked:
        return DescribeUserScramCredentialsResponse(results=[_found(user, infos) for user in infos])
    return DescribeUserScramCredentialsResponse(
        results=[_twice(user) if times > 1 else _found(user, infos) for user, times in asked.items()]
    )


def _found(user: str, infos: dict[str, list[Info]]) -> Result:
    if user in infos:
        return Result(user=user, credential_infos=infos[user])
    text = "the user has no SCRAM credentials"
    return Result(user=user, error_code=ErrorCode.RESOURCE_NOT_FOUND, error_message=text)


def _twice(user: str) -> Result:
    text = "a user may be named once in a request"
    return Result(user=user, error_code=ErrorCode.DUPLICATE_RESOURCE, error_message=text)


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> DescribeUserScramCredentialsResponse:
    """The whole request refused."""
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=text)
