"""Settings that were changed while a cluster runs: from level SHARED on each controller finds them in the metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from actors.controller import settings_in_force
from actors.controller.from_files import records_of_files
from actors.controller.pool_seals import POOLS_KEY
from actors.controller.settings_in_force import Changed, KeptSettings
from actors.runtime.private import write_private
from placement.metadata import ClusterMetadata
from placement.records import (
    METADATA_VERSION,
    QUORUM,
    SHARED,
    ClusterSettingsRecord,
    FeatureLevelRecord,
    Record,
)
from placement.sealed_pools import PoolsKeyRecord

ONE = Changed({"num.partitions": "3"}, {"coterie.internal.security": "both"}, former={"x": "y"})
TWO = Changed({"num.partitions": "5"}, everywhere=True)


class Node:
    """The files of one controller, and the metadata that all have."""

    def __init__(self, folder: Path, metadata: ClusterMetadata) -> None:
        self.folder = folder
        self.metadata = metadata
        self.refuses = False
        (folder / "controller").mkdir(parents=True)
        self.settings = KeptSettings(folder, lambda: metadata, self._commit)

    def _commit(self, records: Sequence[Record]) -> None:
        if self.refuses:
            raise OSError("no majority")
        self.metadata.apply_all(records)

    def take_over(self) -> list[Record]:
        records = records_of_files(self.folder, self.metadata)
        self.metadata.apply_all(records)
        return records


def metadata(level: int = SHARED) -> ClusterMetadata:
    made = ClusterMetadata()
    made.apply(FeatureLevelRecord(METADATA_VERSION, level))
    return made


@pytest.mark.conformance("N-C-07")
def test_another_controller_goes_by_what_was_changed_here(tmp_path: Path) -> None:
    shared = metadata()
    one, other = Node(tmp_path / "1", shared), Node(tmp_path / "2", shared)
    assert other.settings.kept() is None
    for changed in (ONE, TWO):
        one.settings.keep(changed)
        assert other.settings.kept() == changed
        assert settings_in_force.kept(one.folder) == changed, "until its log is open, a process goes by the file"
    other.settings.drop()
    assert one.settings.kept() is None
    assert shared.settings is None


@pytest.mark.conformance("N-C-07")
def test_the_metadata_counts_and_not_a_file_of_another_time(tmp_path: Path) -> None:
    shared = metadata()
    one, other = Node(tmp_path / "1", shared), Node(tmp_path / "2", shared)
    one.settings.keep(ONE)
    other.settings.keep(TWO)
    assert one.settings.kept() == TWO


def test_what_could_not_commit_has_changed_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, metadata())
    node.settings.keep(ONE)
    node.refuses = True
    with pytest.raises(OSError, match="no majority"):
        node.settings.keep(TWO)
    assert node.settings.kept() == settings_in_force.kept(tmp_path) == ONE


def test_what_has_committed_is_changed_though_the_file_cannot_be_written(tmp_path: Path) -> None:
    node = Node(tmp_path, metadata())
    (tmp_path / "controller").rmdir()
    node.settings.keep(ONE)
    assert node.settings.kept() == ONE


@pytest.mark.conformance("N-C-07")
def test_below_the_level_an_older_build_finds_them_in_the_file(tmp_path: Path) -> None:
    node = Node(tmp_path, metadata(QUORUM))
    node.settings.keep(ONE)
    assert node.metadata.settings is None
    assert node.settings.kept() == settings_in_force.kept(tmp_path) == ONE
    node.settings.drop()
    assert node.settings.kept() is None


@pytest.mark.conformance("N-C-07")
def test_once_the_level_is_raised_the_controller_takes_over_what_is_in_its_files(tmp_path: Path) -> None:
    node = Node(tmp_path, metadata(QUORUM))
    write_private(tmp_path / POOLS_KEY, bytes(32).hex())
    node.settings.keep(ONE)
    node.metadata.apply(FeatureLevelRecord(METADATA_VERSION, SHARED))
    assert node.take_over() == [ClusterSettingsRecord(ONE.in_metadata), PoolsKeyRecord(bytes(32))]
    assert node.settings.kept() == ONE
    node.settings.drop()
    settings_in_force.keep(tmp_path, TWO)  # as on a node that was away meanwhile
    assert node.take_over() == [], "that was long ago"
    assert node.settings.kept() is None


def test_a_file_that_cannot_be_read_is_named_and_keeps_nobody_from_leading(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node(tmp_path, metadata())
    assert node.take_over() == []
    assert POOLS_KEY in caplog.text
    assert "stay in" in caplog.text
