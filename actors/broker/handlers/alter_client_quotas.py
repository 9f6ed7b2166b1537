"""AlterClientQuotas: decided by the controller, answered when the living brokers go by them (KIP-546)."""

from __future__ import annotations

from actors.broker.handlers.context import HandlerContext, Request
from actors.broker.handlers.forwarding import forward
from actors.links.quota_operations import AlteredQuotas, AlterQuotas, EntityPart, QuotaAlteration, QuotaChange
from actors.wire.errors import ErrorCode
from actors.wire.messages import AlterClientQuotasRequest, AlterClientQuotasResponse, ApiMessage

API = AlterClientQuotasRequest
VERSIONS = (0, 1)

Entry = AlterClientQuotasResponse.EntryData
Entity = AlterClientQuotasResponse.EntityData


def handle(context: HandlerContext, request: Request) -> None:
    """Each entity is answered by itself."""
    m: AlterClientQuotasRequest = request.message

    def answer(altered: AlteredQuotas) -> AlterClientQuotasResponse:
        return AlterClientQuotasResponse(
            entries=[
                _result(entry, outcome.error_code, outcome.error_message)
                for entry, outcome in zip(m.entries, altered.outcomes, strict=True)
            ]
        )

    alterations = tuple(map(_alteration, m.entries))
    forward(context.broker, request, AlterQuotas(alterations, m.validate_only), answer, failed)


def _alteration(entry: AlterClientQuotasRequest.EntryData) -> QuotaAlteration:
    return QuotaAlteration(
        tuple(EntityPart(part.entity_type, part.entity_name) for part in entry.entity),
        tuple(QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops),
    )


def _result(entry: AlterClientQuotasRequest.EntryData, code: int, text: str | None) -> Entry:
    entity = [Entity(entity_type=part.entity_type, entity_name=part.entity_name) for part in entry.entity]
    return Entry(error_code=code, error_message=text, entity=entity)


def failed(message: ApiMessage, version: int, code: ErrorCode, text: str | None = None) -> AlterClientQuotasResponse:
    """The whole request refused."""
    assert isinstance(message, AlterClientQuotasRequest)
    return AlterClientQuotasResponse(entries=[_result(entry, code, text) for entry in message.entries])
