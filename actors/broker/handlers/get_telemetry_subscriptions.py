"""GetTelemetrySubscriptions: asks clients for no metrics, because nobody collects them (KIP-714)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.runtime.environment import new_uuid
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse

API = GetTelemetrySubscriptionsRequest
VERSIONS = (0, 0)

_ASK_AGAIN_MS = 300_000  # Kafka's default interval
_MAX_BYTES = 1 << 20
_ZSTD, _LZ4, _GZIP, _SNAPPY = 4, 3, 1, 2


def handle(context: HandlerContext, request: Request) -> GetTelemetrySubscriptionsResponse:
    """Answered at once. A client that has no instance id is given one."""
    m: GetTelemetrySubscriptionsRequest = request.message
    chance = context.broker.environment.chance
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=m.client_instance_id if any(m.client_instance_id) else new_uuid(chance).bytes,
        accepted_compression_types=[_ZSTD, _LZ4, _GZIP, _SNAPPY],
        push_interval_ms=_ASK_AGAIN_MS,
        telemetry_max_bytes=_MAX_BYTES,
        delta_temporality=True,
    )


def failed(
    message: ApiMessage, version: int, code: ErrorCode, text: str | None = None
) -> GetTelemetrySubscriptionsResponse:
    """The whole request refused."""
    return GetTelemetrySubscriptionsResponse(error_code=code)
