"""New formats of the metadata are written once every broker speaks a version that knows them, and never before."""

from __future__ import annotations

import pytest

from actors.controller.features import raised
from actors.links.operations import MetadataVersionRaised, RaiseMetadataVersion
from actors.links.versions import FIRST, LAST, OWN, UNTOLD, Spoken, at_level, common, level_of
from actors.wire.errors import ErrorCode
from placement.metadata import BrokerInfo, ClusterMetadata, ControllerInfo
from placement.records import (
    METADATA_LEVELS,
    METADATA_VERSION,
    BrokerRecord,
    FeatureLevelRecord,
    RegisterControllerRecord,
)
from placement.sealed_pools import PoolSealedRecord, SealedPool, SealedVersion

OLD, NEWER = Spoken(0, 0, "0.1.0"), Spoken(LAST, LAST + 3, "9.9")
RECORD = FeatureLevelRecord(METADATA_VERSION, 2)


def metadata(brokers: int = 2, level: int = 1) -> ClusterMetadata:
    made = ClusterMetadata("cluster")
    for broker_id in range(brokers):
        made.apply(BrokerRecord(BrokerInfo(broker_id, "h", 9092, None, 0)))
    if level > 1:
        made.apply(FeatureLevelRecord(METADATA_VERSION, level))
    return made


@pytest.mark.conformance("N-E-04")
def test_a_level_that_all_brokers_know_is_written() -> None:
    result, records = raised(metadata(), {0: OWN, 1: NEWER}, RaiseMetadataVersion(2))
    assert (result, records) == (MetadataVersionRaised(0, None), [RECORD])
    assert metadata().level == 1
    assert metadata(level=2).level == 2


@pytest.mark.conformance("N-E-04")
@pytest.mark.parametrize(
    ("spoken", "level", "text"),
    [
        ({0: OWN, 1: OLD}, 2, "broker 1 (build 0.1.0) speaks version 0, which does not know level 2: upgrade it first"),
        (
            {0: UNTOLD, 1: OWN},
            2,
            "broker 0 (an old build, which does not say so) speaks version 0, which does not know",
        ),
        ({0: OWN}, 2, "broker 1 is not there, and nobody knows what it speaks"),
        ({0: OWN, 1: OWN}, 7, "this controller knows levels 1 to 6, not 7"),
        ({0: OWN, 1: OWN}, 0, "this controller knows levels 1 to 6, not 0"),
    ],
)
def test_a_level_that_not_all_know_is_refused_by_name(spoken: dict[int, Spoken], level: int, text: str) -> None:
    result, records = raised(metadata(), spoken, RaiseMetadataVersion(level))
    assert result.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (result.error_message or "").startswith(text)
    assert records == []


@pytest.mark.conformance("N-E-04")
def test_a_level_that_one_of_the_controllers_does_not_know_is_refused() -> None:
    made = metadata()
    for controller_id, known in ((1, 3), (2, 2)):
        made.apply(RegisterControllerRecord(ControllerInfo(controller_id, "d", "h", 9, known)))
    spoken = {0: OWN, 1: OWN}
    result, records = raised(made, spoken, RaiseMetadataVersion(3))
    assert result.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert result.error_message == "controller 2 knows levels up to 2, not 3: upgrade it first"
    assert records == []
    assert raised(made, spoken, RaiseMetadataVersion(2))[1] == [RECORD]


@pytest.mark.conformance("N-E-04")
def test_there_is_no_way_back() -> None:
    result, records = raised(metadata(level=2), {0: OWN, 1: OWN}, RaiseMetadataVersion(1))
    assert (result.error_code, records) == (ErrorCode.INVALID_UPDATE_VERSION, [])
    assert raised(metadata(level=2), {}, RaiseMetadataVersion(2)) == (MetadataVersionRaised(0, None), [])


def test_what_is_only_checked_is_not_written() -> None:
    assert raised(metadata(), {0: OWN, 1: OWN}, RaiseMetadataVersion(2, validate_only=True))[1] == []
    assert raised(metadata(), {0: OWN, 1: OLD}, RaiseMetadataVersion(2, validate_only=True))[0].error_code != 0


def test_each_level_is_known_from_some_version_on() -> None:
    for level in METADATA_LEVELS:
        spoken = at_level(level)
        assert FIRST <= spoken.first <= spoken.last == LAST
        assert level_of(Spoken(0, spoken.first)) >= level
        assert spoken.first == 0 or level_of(Spoken(0, spoken.first - 1)) < level
    assert level_of(OWN) == METADATA_LEVELS[-1]
    assert level_of(NEWER) == METADATA_LEVELS[-1], "as far as we can tell"
    assert at_level(1) == OWN
    assert common(at_level(2), UNTOLD) is None


@pytest.mark.conformance("N-E-04")
def test_images_are_those_of_earlier_builds_until_the_level_is_raised() -> None:
    """They read 12 values, or fewer, and exactly 8 of one without credentials."""
    full = metadata()
    full.apply(PoolSealedRecord("p", SealedPool(None, SealedVersion("i", 1, b"d"), None)))
    assert len(metadata().to_wire()) == 7
    assert len(full.to_wire()) == 12
    assert len(full.without_security().to_wire()) == len(metadata().without_security().to_wire()) == 8
    for made in (metadata(level=2), metadata(level=2).without_security()):
        found = ClusterMetadata.from_wire(made.to_wire())
        assert (found, found.level) == (made, 2)
