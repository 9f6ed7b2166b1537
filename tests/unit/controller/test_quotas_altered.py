"""The controller's decisions about quotas (KIP-546), which the metadata keeps: SECURITY.md, XD-06."""

from __future__ import annotations

from typing import Any

import pytest

from actors.controller.decisions import operations, quotas
from actors.links.quota_operations import (
    AlteredQuotas,
    AlterQuotas,
    EntityPart,
    QuotaAlteration,
    QuotaChange,
)
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata
from placement.records import Record

ANN = (("user", "ann"),)
BOTH = (("client-id", "app"), ("user", None))


def change(entity: tuple[tuple[str, str | None], ...], **values: float | None) -> QuotaAlteration:
    parts = tuple(EntityPart(*each) for each in entity)
    return QuotaAlteration(parts, tuple(QuotaChange(key, value) for key, value in values.items()))


def decide(metadata: ClusterMetadata, *asked: QuotaAlteration, **more: Any) -> tuple[list[int], list[Record]]:
    """The codes and the records, which are applied as the controller does."""
    operation = AlterQuotas(tuple(asked), **more)
    result, records = operations.decide(metadata, BrokerConfig.from_mapping({}), operation, lambda: bytes(16))
    for record in records:
        metadata.apply(record)
    assert ClusterMetadata.from_wire(metadata.to_wire()) == metadata
    assert isinstance(result, AlteredQuotas)
    return [each.error_code for each in result.outcomes], list(records)


@pytest.mark.conformance("XD-06")
def test_quotas_are_set_changed_and_removed() -> None:
    metadata = ClusterMetadata()
    codes, records = decide(metadata, change(ANN, producer_byte_rate=5, consumer_byte_rate=6), change(BOTH[::-1]))
    assert (codes, len(records)) == ([0, 0], 2)
    assert decide(metadata, change(BOTH[::-1], controller_mutation_rate=0.5))[0] == [0]
    assert metadata.quotas == {
        ANN: {"producer_byte_rate": 5, "consumer_byte_rate": 6},
        BOTH: {"controller_mutation_rate": 0.5},
    }
    decide(metadata, change(ANN, producer_byte_rate=7, consumer_byte_rate=None))
    assert metadata.quotas[ANN] == {"producer_byte_rate": 7}
    decide(metadata, change(ANN, producer_byte_rate=None), change(BOTH, controller_mutation_rate=None))
    assert metadata.quotas == {}


def test_what_is_so_already_is_no_record() -> None:
    metadata = ClusterMetadata()
    decide(metadata, change(ANN, producer_byte_rate=5))
    again = decide(metadata, change(ANN, producer_byte_rate=5, consumer_byte_rate=None))
    assert again == ([0], [])
    assert decide(metadata, change((("user", "bob"),), producer_byte_rate=None)) == ([0], [])
    assert decide(metadata, change(ANN, producer_byte_rate=9), validate_only=True) == ([0], [])


def test_an_entity_that_is_refused_is_not_changed_at_all_and_does_not_hold_up_others() -> None:
    metadata = ClusterMetadata()
    codes, _ = decide(
        metadata,
        change(ANN, producer_byte_rate=5, consumer_byte_rate=0),
        change((("ip", "10.0.0.1"),), connection_creation_rate=3),
        change((("ip", "10.0.0.1"), ("user", "a")), connection_creation_rate=3),
        change((), producer_byte_rate=5),
        change(ANN, connection_creation_rate=None),
    )
    assert codes == [42, 0, 42, 42, 42]
    assert metadata.quotas == {(("ip", "10.0.0.1"),): {"connection_creation_rate": 3}}


def test_one_request_may_name_an_entity_twice() -> None:
    metadata = ClusterMetadata()
    codes, _ = decide(metadata, change(ANN, producer_byte_rate=5), change(ANN, producer_byte_rate=None))
    assert codes == [0, 0]
    assert metadata.quotas == {}


def test_there_is_a_most_of_entities(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quotas, "MOST_ENTITIES", 2)
    metadata = ClusterMetadata()
    names = [change((("user", name),), producer_byte_rate=5) for name in "abc"]
    assert decide(metadata, *names)[0] == [0, 0, 44]
    assert decide(metadata, change((("user", "a"),), producer_byte_rate=6))[0] == [0]


def test_images_without_quotas_are_read_and_differences_keep_them() -> None:
    metadata = ClusterMetadata()
    decide(metadata, change(ANN, producer_byte_rate=5))
    wire = metadata.to_wire()
    assert ClusterMetadata.from_wire(wire[:-2]).quotas == {}
    lesser = ClusterMetadata.from_wire(metadata.without_security().to_wire())
    assert lesser.with_security_of(metadata).quotas == metadata.quotas
    assert metadata.security_version == metadata.version
