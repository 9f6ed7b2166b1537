"""DescribeClientQuotas: the quotas of the entities that a filter finds (KIP-546), from the last image."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.quotas.entities import Component, EntityError, UnknownTypeError, found
from actors.wire.errors import ErrorCode
from actors.wire.messages import ApiMessage, DescribeClientQuotasRequest, DescribeClientQuotasResponse

API = DescribeClientQuotasRequest
VERSIONS = (0, 1)

Entry = DescribeClientQuotasResponse.EntryData
Entity = DescribeClientQuotasResponse.EntityData
Value = DescribeClientQuotasResponse.ValueData


def handle(context: HandlerContext, request: Request) -> DescribeClientQuotasResponse:
    """Answered at once."""
    m: DescribeClientQuotasRequest = request.message
    quotas = context.broker.metadata.quotas
    components = [Component(each.entity_type, each.match_type, each.match) for each in m.components]
    try:
        entities = found(quotas, components, strict=m.strict)
    except UnknownTypeError as error:
        return failed(m, request.version, ErrorCode.UNSUPPORTED_VERSION, str(error))
    except EntityError as error:
        return failed(m, request.version, ErrorCode.INVALID_REQUEST, str(error))
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            Entry(
                entity=[Entity(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[Value(key=key, value=rate) for key, rate in quotas[entity].items()],
            )
            for entity in entities
        ],
    )


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> DescribeClientQuotasResponse:
    """The whole request refused."""
    return DescribeClientQuotasResponse(error_code=code, error_message=text, entries=None)
