"""Decisions about users: their SCRAM credentials (KIP-554).

The broker that was asked has checked what can be told without the metadata, and has made the keys: passwords do not
come here.
"""

from __future__ import annotations

from collections.abc import Iterable

from actors.controller.decisions.decision import Decision, NewId
from actors.links.operations import AlteredScram, AlterScram, ScramUpsertion, UserOutcome
from actors.settings import BrokerConfig
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata
from placement.records import Record, RemoveUserScramCredentialRecord, ScramSecretRecord, UserScramCredentialRecord


def alter_scram(metadata: ClusterMetadata, config: BrokerConfig, asked: AlterScram, new_id: NewId) -> Decision:
    """Forget and keep credentials. A deletion of one that is not there is refused; the others are carried out."""
    outcomes: list[UserOutcome] = []
    records: list[Record] = []
    known = set(metadata.scram)
    for doomed in asked.deletions:
        if (doomed.user, doomed.mechanism) in known:
            known.remove((doomed.user, doomed.mechanism))
            records.append(RemoveUserScramCredentialRecord(doomed.user, doomed.mechanism))
            outcomes.append(UserOutcome(doomed.user, 0, None))
        else:
            text = "the user has no credential for this mechanism"
            outcomes.append(UserOutcome(doomed.user, ErrorCode.RESOURCE_NOT_FOUND, text))
    records += kept(metadata, asked.upsertions, new_id)
    outcomes += [UserOutcome(each.user, 0, None) for each in asked.upsertions]
    return AlteredScram(tuple(outcomes)), records


def kept(metadata: ClusterMetadata, upsertions: Iterable[ScramUpsertion], new_id: NewId) -> list[Record]:
    """The records of credentials. With the first of a cluster comes the secret that unknown users' salts are made of.

    Until then no user exists, so that it tells nothing that none does.
    """
    records: list[Record] = [
        UserScramCredentialRecord(
            each.user, each.mechanism, each.salt, each.stored_key, each.server_key, each.iterations
        )
        for each in upsertions
    ]
    if records and not metadata.scram_secret:
        records.insert(0, ScramSecretRecord(new_id() + new_id()))
    return records
