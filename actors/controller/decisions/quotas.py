"""What the controller decides about quotas (KIP-546). As in topics.py, nothing is applied here."""

from __future__ import annotations

import logging

from actors.controller.decisions.configs import RefusedError, refusal_for
from actors.controller.decisions.elections import Record
from actors.links.quota_operations import AlteredQuotas, AlterQuotas, QuotaAlteration, QuotaOutcome
from actors.quotas.entities import REQUEST_PERCENTAGE, Entity, EntityError, check_key, check_quota, entity_of
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata

log = logging.getLogger(__name__)

MOST_ENTITIES = 10_000


def alter_quotas(metadata: ClusterMetadata, asked: AlterQuotas) -> tuple[AlteredQuotas, list[Record]]:
    """Set and remove quotas. An entity whose quotas cannot be is refused, and does not hold up the others.

    A quota that is removed and was not there is no error.
    """
    present = {entity: dict(own) for entity, own in metadata.quotas.items()}
    outcomes: list[QuotaOutcome] = []
    records: list[Record] = []
    for alteration in asked.alterations:
        try:
            entity = _checked(alteration)
            if entity not in present and len(present) >= MOST_ENTITIES:
                raise RefusedError(ErrorCode.POLICY_VIOLATION, f"{len(present)} entities have quotas, and no more may")
        except EntityError as error:
            outcomes.append(QuotaOutcome(ErrorCode.INVALID_REQUEST, str(error)))
        except Exception as error:
            refusal = refusal_for(error)
            outcomes.append(QuotaOutcome(int(refusal.code), str(refusal)))
        else:
            records += _changes(present, entity, alteration)
            outcomes.append(QuotaOutcome(0, None))
    return AlteredQuotas(tuple(outcomes)), [] if asked.validate_only else records


def _checked(alteration: QuotaAlteration) -> Entity:
    entity = entity_of((part.type, part.name) for part in alteration.entity)
    for change in alteration.changes:
        if change.value is None:
            check_key(entity, change.key)
        else:
            check_quota(entity, change.key, change.value)
    return entity


def _changes(present: dict[Entity, dict[str, float]], entity: Entity, alteration: QuotaAlteration) -> list[Record]:
    """The records of what is not so already, which is noted in `present`."""
    records: list[Record] = []
    own = present.get(entity, {})
    parts = [list(part) for part in entity]
    for change in alteration.changes:
        if change.value is None and change.key in own:
            del own[change.key]
            records.append(["quota_removed", parts, change.key])
        elif change.value is not None and own.get(change.key) != change.value:
            own[change.key] = change.value
            records.append(["quota", parts, change.key, change.value])
            if change.key == REQUEST_PERCENTAGE:
                log.warning("%s of %s has no effect: it is kept and not looked at", change.key, parts)
    if own:
        present[entity] = own
    else:
        present.pop(entity, None)
    return records
