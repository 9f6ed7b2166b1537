"""The controller's decisions about users: SECURITY.md, B.5."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest

from actors.controller.decisions import operations
from actors.links.operations import AlteredScram, AlterScram, ScramDeletion, ScramUpsertion, UserOutcome
from actors.settings import BrokerConfig
from placement.metadata import ClusterMetadata
from placement.records import Record

_ids = itertools.count(1)
ANNE = ScramUpsertion("anne", 1, b"salt", b"stored", b"server", 8192)
BERT = ScramUpsertion("bert", 2, b"salt", b"stored", b"server", 4096)


def decide(metadata: ClusterMetadata, asked: AlterScram) -> tuple[AlteredScram, Sequence[Record]]:
    """The decision, applied to the metadata as the controller does."""
    result, records = operations.decide(
        metadata, BrokerConfig.from_mapping({}), asked, lambda: next(_ids).to_bytes(16, "big")
    )
    for record in records:
        metadata.apply(record)
    assert isinstance(result, AlteredScram)
    return result, records


@pytest.mark.conformance("XB-39")
def test_what_is_kept_of_a_password_is_a_record() -> None:
    metadata = ClusterMetadata()
    result, records = decide(metadata, AlterScram(upsertions=(ANNE, BERT)))
    assert result.users == (UserOutcome("anne", 0, None), UserOutcome("bert", 0, None))
    assert [record.KIND for record in records] == ["scram_secret", "scram", "scram"]
    assert metadata.scram == {
        ("anne", 1): (b"salt", b"stored", b"server", 8192),
        ("bert", 2): (b"salt", b"stored", b"server", 4096),
    }


@pytest.mark.conformance("XB-22")
def test_the_secret_of_unknown_users_is_made_once() -> None:
    metadata = ClusterMetadata()
    decide(metadata, AlterScram(upsertions=(ANNE,)))
    secret = metadata.scram_secret
    assert len(secret) == 32
    decide(metadata, AlterScram(upsertions=(BERT,)))
    decide(metadata, AlterScram(deletions=(ScramDeletion("anne", 1), ScramDeletion("bert", 2))))
    decide(metadata, AlterScram(upsertions=(ANNE,)))
    assert metadata.scram_secret == secret


@pytest.mark.conformance("XB-33")
def test_who_has_nothing_to_be_forgotten_is_told_so_and_the_others_are_carried_out() -> None:
    metadata = ClusterMetadata()
    decide(metadata, AlterScram(upsertions=(ANNE,)))
    asked = AlterScram((ScramDeletion("anne", 2), ScramDeletion("carl", 1)), (BERT,))
    result, records = decide(metadata, asked)
    assert [(each.user, each.error_code) for each in result.users] == [("anne", 91), ("carl", 91), ("bert", 0)]
    assert [record.KIND for record in records] == ["scram"]
    result, _ = decide(metadata, AlterScram((ScramDeletion("anne", 1),)))
    assert result.users == (UserOutcome("anne", 0, None),)
    assert set(metadata.scram) == {("bert", 2)}


def test_a_credential_that_is_to_be_forgotten_twice_is_gone_once() -> None:
    """Brokers refuse such a request; the controller took one that came all the same for a bug."""
    metadata = ClusterMetadata()
    decide(metadata, AlterScram(upsertions=(ANNE,)))
    doomed = ScramDeletion(ANNE.user, ANNE.mechanism)
    result, _ = decide(metadata, AlterScram(deletions=(doomed, doomed)))
    assert [user.error_code for user in result.users] == [0, 91]
    assert not metadata.scram
