"""The call of brokers to the controller about quotas (KIP-546), and its result."""

from __future__ import annotations

from dataclasses import dataclass

from actors.links.operations import Operation, Result


@dataclass(frozen=True, slots=True)
class EntityPart:
    """A type and a name, as a client writes them: nothing has been checked. None is the default of the type."""

    type: str
    name: str | None


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """A quota to set, or with the value None to remove."""

    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """The changes of one entity's quotas: all are made, or none."""

    entity: tuple[EntityPart, ...]
    changes: tuple[QuotaChange, ...]


@dataclass(frozen=True, slots=True)
class QuotaOutcome:
    """The result for the alteration of one entity."""

    error_code: int
    error_message: str | None


@dataclass(frozen=True, slots=True)
class AlteredQuotas(Result):
    """In the order they were asked for."""

    outcomes: tuple[QuotaOutcome, ...]


@dataclass(frozen=True, slots=True)
class AlterQuotas(Operation[AlteredQuotas]):
    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool = False


CLASSES: dict[int, type[Operation[Result]] | type[Result]] = {118: AlterQuotas, 216: AlteredQuotas}
"""Tags on the control link, beside those of `operations`."""
