"""Decisions about quotas (KIP-546). Nothing is applied here."""

from __future__ import annotations

import logging

from actors.controller.decisions.decision import Decision, NewId, RefusedError
from actors.links.quota_operations import AlteredQuotas, AlterQuotas, QuotaAlteration, QuotaOutcome
from actors.quotas.entities import REQUEST_PERCENTAGE, Entity, EntityError, check_key, check_quota, entity_of
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata
from placement.records import ClientQuotaRecord, Record, RemoveClientQuotaRecord

log = logging.getLogger(__name__)

MOST_ENTITIES = 10_000


def alter_quotas(metadata: ClusterMetadata, config: BrokerConfig, asked: AlterQuotas, new_id: NewId) -> Decision:
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
        except RefusedError as refusal:
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
    for change in alteration.changes:
        if change.value is None and change.key in own:
            del own[change.key]
            records.append(RemoveClientQuotaRecord(entity, change.key))
        elif change.value is not None and own.get(change.key) != change.value:
            own[change.key] = change.value
            records.append(ClientQuotaRecord(entity, change.key, change.value))
            if change.key == REQUEST_PERCENTAGE:
                log.warning(
                    "%s of %s has no effect: it is kept and not looked at", change.key, [list(part) for part in entity]
                )
    if own:
        present[entity] = own
    else:
        present.pop(entity, None)
    return records
