"""ApiVersions: which APIs this broker serves, in which versions, and its features (KIP-35, KIP-511, KIP-584)."""

from __future__ import annotations

import re

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.features import features
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ApiVersionsRequest, ApiVersionsResponse

API = ApiVersionsRequest
VERSIONS = (0, 4)

_ZERO_FROM = 4  # older clients refuse an answer with a feature that begins at level 0

_SOFTWARE_FROM = 3
_SOFTWARE_CHARACTERS = 64
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(context: HandlerContext, request: Request) -> ApiVersionsResponse:
    """All ranges, or INVALID_REQUEST if the client's software name or version is illegal."""
    m: ApiVersionsRequest = request.message
    if not is_legal(m, request.version):
        return failed(m, request.version, ErrorCode.INVALID_REQUEST)
    if request.version >= _SOFTWARE_FROM:
        request.connection.software = f"{m.client_software_name} {m.client_software_version}"[:_SOFTWARE_CHARACTERS]
    least = 0 if request.version >= _ZERO_FROM else 1
    known = features(context.broker.metadata.level)
    return ApiVersionsResponse(
        api_keys=[_range(key, *versions) for key, versions in context.advertised.items()],
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=f.first, max_version=f.last)
            for name, f in known.items()
            if f.first >= least
        ],
        finalized_features_epoch=context.broker.metadata.version,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=f.level, min_version_level=f.level)
            for name, f in known.items()
            if f.level > 0
        ],
    )


def is_legal(message: ApiVersionsRequest, version: int) -> bool:
    """Whether a client's software may be called so. Older versions do not say what it is."""
    names = (message.client_software_name, message.client_software_version)
    return version < _SOFTWARE_FROM or all(map(_SOFTWARE.match, names))


def unsupported() -> ApiVersionsResponse:
    """The answer to an ApiVersions request of a version that is not served. To be encoded in version 0."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range(API.api_key, *VERSIONS)])


def _range(api_key: int, first: int, last: int) -> ApiVersionsResponse.ApiVersion:
    return ApiVersionsResponse.ApiVersion(api_key=api_key, min_version=first, max_version=last)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ApiVersionsResponse:
    """The whole request refused."""
    return ApiVersionsResponse(error_code=code)
