"""SaslHandshake where nothing is to be agreed: on listeners without SASL, and after authentication (KIP-43).

Before it, and for re-authentication, actors/broker/entrance/authenticating.py handles the request.
"""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, SaslHandshakeRequest, SaslHandshakeResponse

API = SaslHandshakeRequest
VERSIONS = (0, 1)


def handle(context: HandlerContext, request: Request) -> SaslHandshakeResponse:
    """Refused at once; the connection stays."""
    return failed(request.message, request.version, ErrorCode.ILLEGAL_SASL_STATE)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> SaslHandshakeResponse:
    """The whole request refused."""
    return SaslHandshakeResponse(error_code=code)
