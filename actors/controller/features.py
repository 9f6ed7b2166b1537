"""Levels of features: the metadata is written in newer formats once every broker speaks a version that knows them."""

from __future__ import annotations

from collections.abc import Mapping

from actors.controller.decisions.decision import Decision
from actors.links.operations import MetadataVersionRaised, RaiseMetadataVersion
from actors.links.versions import Spoken, level_of
from actors.wire.errors import ErrorCode
from placement.metadata import ClusterMetadata
from placement.records import METADATA_LEVELS, METADATA_VERSION, FeatureLevelRecord


def raised(metadata: ClusterMetadata, spoken: Mapping[int, Spoken], asked: RaiseMetadataVersion) -> Decision:
    """Raise the level, or refuse it. `spoken` is what each registered broker speaks, by its id."""
    wrong = _why_not(metadata, spoken, asked.level)
    if wrong is not None:
        return MetadataVersionRaised(ErrorCode.INVALID_UPDATE_VERSION, wrong), []
    done = MetadataVersionRaised(ErrorCode.NONE, None)
    if asked.validate_only or asked.level == metadata.level:
        return done, []
    return done, [FeatureLevelRecord(METADATA_VERSION, asked.level)]


def _why_not(metadata: ClusterMetadata, spoken: Mapping[int, Spoken], level: int) -> str | None:
    if level not in METADATA_LEVELS:
        return f"this controller knows levels {METADATA_LEVELS[0]} to {METADATA_LEVELS[-1]}, not {level}"
    if level < metadata.level:
        return f"the level is {metadata.level}, and what was written since cannot be read at level {level}"
    if level == metadata.level:
        return None
    away = sorted(metadata.brokers.keys() - spoken.keys())
    if away:
        return f"broker {away[0]} is not there, and nobody knows what it speaks"
    older = [broker_id for broker_id in sorted(spoken) if level_of(spoken[broker_id]) < level]
    if older:
        return f"broker {older[0]} {spoken[older[0]]}, which does not know level {level}: upgrade it first"
    behind = [each for each in metadata.controllers.values() if each.level < level]
    if behind:
        return f"controller {behind[0].id} knows levels up to {behind[0].level}, not {level}: upgrade it first"
    return None
