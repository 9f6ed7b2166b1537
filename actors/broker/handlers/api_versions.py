"""ApiVersions: which APIs this broker serves, in which versions, and its features (KIP-35, KIP-511, KIP-584).

A client that says which broker of which cluster it expects, and has reached another, is told so (KIP-1242): addresses
are given to others. Node ids stay with their addresses here, as all brokers tell the same of them.
"""

from __future__ import annotations

import re

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.features import features
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, ApiVersionsRequest, ApiVersionsResponse

API = ApiVersionsRequest
VERSIONS = (0, 5)

_ZERO_FROM = 4  # older clients refuse an answer with a feature that begins at level 0

_NODE_FROM = 5  # the request may say which broker it is meant for (KIP-1242)
_NO_NODE = -1

_SOFTWARE_FROM = 3
_SOFTWARE_CHARACTERS = 64
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def handle(context: HandlerContext, request: Request) -> ApiVersionsResponse:
    """All ranges; INVALID_REQUEST, or REBOOTSTRAP_REQUIRED if the client meant another broker."""
    m: ApiVersionsRequest = request.message
    if not is_legal(m, request.version):
        return failed(m, request.version, ErrorCode.INVALID_REQUEST)
    if _is_astray(context, m, request.version):
        return failed(m, request.version, ErrorCode.REBOOTSTRAP_REQUIRED)
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
    """True if software may be called so, and both a cluster and a node are named, or neither. Older ones say less."""
    names = (message.client_software_name, message.client_software_version)
    if version >= _NODE_FROM and (message.cluster_id is None) != (message.node_id == _NO_NODE):
        return False
    return version < _SOFTWARE_FROM or all(map(_SOFTWARE.match, names))


def _is_astray(context: HandlerContext, message: ApiVersionsRequest, version: int) -> bool:
    """True if the client meant another broker, or another cluster's."""
    broker = context.broker
    if version < _NODE_FROM or message.cluster_id is None:
        return False
    return (message.cluster_id, message.node_id) != (broker.metadata.cluster_id, broker.broker_id)


def unsupported() -> ApiVersionsResponse:
    """The answer to an ApiVersions request of a version that is not served. To be encoded in version 0."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range(API.api_key, *VERSIONS)])


def _range(api_key: int, first: int, last: int) -> ApiVersionsResponse.ApiVersion:
    return ApiVersionsResponse.ApiVersion(api_key=api_key, min_version=first, max_version=last)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> ApiVersionsResponse:
    """The whole request refused."""
    return ApiVersionsResponse(error_code=code)
