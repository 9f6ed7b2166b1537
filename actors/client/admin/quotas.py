"""The methods of `Admin` for quotas (KIP-546), on the event loop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from actors.client.admin.brokers import Brokers, Outcomes, outcome
from actors.client.admin.types import ALL_OTHERS, QuotaEntity
from actors.client.error_codes import error_for, is_retriable
from actors.wire.messages import AlterClientQuotasRequest, DescribeClientQuotasRequest

Changes = Mapping[QuotaEntity, Mapping[str, float | None]]

_TYPES: Final = {"user": "user", "client_id": "client-id", "ip": "ip"}  # fields of an entity, and Kafka's types
_EXACT, _DEFAULT = 0, 1


class ClientQuotas:
    """Describes and changes quotas. Deadlines are monotonic ms."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers

    async def describe(self, wanted: QuotaEntity, strict: bool, deadline: int) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of the entities that have these names; if `strict`, of those alone that have no type beside."""
        request = DescribeClientQuotasRequest(
            components=[
                DescribeClientQuotasRequest.ComponentData(
                    entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
                )
                for kind, name in _parts(wanted)
            ],
            strict=strict,
        )

        async def attempt() -> dict[QuotaEntity, dict[str, float]]:
            response = await self._brokers.ask_controller(lambda timeout: request, deadline)
            if response.error_code:
                raise error_for(response.error_code, "finding quotas", response.error_message)
            return {_entity(each.entity): {rate.key: rate.value for rate in each.values} for each in response.entries}

        return await self._brokers.again(attempt, deadline)

    async def alter(self, changes: Changes, validate_only: bool, deadline: int) -> Outcomes[QuotaEntity]:
        """Set quotas, and remove those whose rate is None. One outcome for each entity."""
        request = AlterClientQuotasRequest(
            entries=[_entry(entity, rates) for entity, rates in changes.items()], validate_only=validate_only
        )

        async def attempt() -> Outcomes[QuotaEntity]:
            response = await self._brokers.ask_controller(lambda timeout: request, deadline)
            for result in response.entries:
                if is_retriable(result.error_code):
                    raise error_for(result.error_code, "altering quotas", result.error_message)
            return {
                _entity(each.entity): outcome(each.error_code, "altering quotas", each.error_message)
                for each in response.entries
            }

        return await self._brokers.again(attempt, deadline)


def _entry(entity: QuotaEntity, rates: Mapping[str, float | None]) -> AlterClientQuotasRequest.EntryData:
    return AlterClientQuotasRequest.EntryData(
        entity=[
            AlterClientQuotasRequest.EntityData(entity_type=kind, entity_name=name) for kind, name in _parts(entity)
        ],
        ops=[
            AlterClientQuotasRequest.OpData(key=key, value=rate or 0.0, remove=rate is None)
            for key, rate in rates.items()
        ],
    )


def _parts(entity: QuotaEntity) -> list[tuple[str, str | None]]:
    names = {kind: getattr(entity, name) for name, kind in _TYPES.items()}
    return [(kind, None if name == ALL_OTHERS else name) for kind, name in names.items() if name is not None]


def _entity(parts: Any) -> QuotaEntity:
    names = {part.entity_type: ALL_OTHERS if part.entity_name is None else part.entity_name for part in parts}
    return QuotaEntity(**{name: names.get(kind) for name, kind in _TYPES.items()})
