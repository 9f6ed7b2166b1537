"""SaslAuthenticate where nothing is to be proved: on listeners without SASL, and after authentication (KIP-152).

Before it, and for re-authentication, actors/broker/entrance/authenticating.py handles the request.
"""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, SaslAuthenticateRequest, SaslAuthenticateResponse

API = SaslAuthenticateRequest
VERSIONS = (0, 2)


def handle(context: HandlerContext, request: Request) -> SaslAuthenticateResponse:
    """Refused at once; the connection stays."""
    text = "SaslAuthenticate request received after successful authentication"
    return failed(request.message, request.version, ErrorCode.ILLEGAL_SASL_STATE, text)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> SaslAuthenticateResponse:
    """The whole request refused."""
    return SaslAuthenticateResponse(error_code=code, error_message=text)
