"""The versions of deployed pools that the controller lets run, though a writer of the topic brings old ones back."""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from actors.controller.pool_seals import POOLS_KEY, PoolSeals
from actors.links.pool_seals import Ended, MayRun, Newest, Old, OnlyThese, Proven, Seal, SealAnew, Verdict
from actors.runtime.private import write_private
from placement.metadata import ClusterMetadata
from placement.records import Record
from placement.sealed_pools import PoolsKeyRecord, SealedVersion

KEY = bytes(range(32))
ONE = SealedVersion("inc", 1, b"digest one")
TWO = SealedVersion("inc", 2, b"digest two")
THREE = SealedVersion("inc", 3, b"digest three")


class Controller:
    """Seals over metadata that a test can replay, as the log's replay does at a start."""

    def __init__(self, folder: Path) -> None:
        if not (folder / POOLS_KEY).exists():
            write_private(folder / POOLS_KEY, KEY.hex())
        self.metadata = ClusterMetadata()
        self.log: list[Record] = []
        self.seals = PoolSeals(folder, lambda: self.metadata.pools, self._commit)

    def _commit(self, records: Sequence[Record]) -> None:
        self.log += records
        for record in records:
            self.metadata.apply(record)

    def take_key_over(self) -> None:
        """Have the key in the metadata, as from level SHARED on."""
        self._commit([PoolsKeyRecord(KEY)])

    def restart(self, *, snapshot: bool) -> None:
        """Begin anew with the log's records, or with a snapshot of them."""
        metadata = ClusterMetadata()
        for record in self.log:
            metadata.apply(record)
        self.metadata = ClusterMetadata.of_image(metadata.image()) if snapshot else metadata

    def seal(self, name: str, version: SealedVersion) -> bytes:
        made = self.seals.answer(Seal(name, version))
        assert isinstance(made, bytes)
        return made

    def deployed(self, name: str, version: SealedVersion) -> bytes:
        seal = self.seal(name, version)
        assert self.refusal(name, version, seal) == ""
        return seal

    def refusal(self, name: str, version: SealedVersion, seal: bytes) -> str:
        verdict = self.seals.answer(MayRun(name, version, seal))
        assert isinstance(verdict, Verdict)
        return verdict.refusal


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_replaced_version_does_not_run_again(controller: Controller, restarted: bool, snapshot: bool) -> None:
    first = controller.deployed("p", ONE)
    second = controller.deployed("p", TWO)
    if restarted:
        controller.restart(snapshot=snapshot)
    assert controller.refusal("p", ONE, first).startswith("version 1 was replaced by version 2")
    assert controller.refusal("p", TWO, second) == ""


def test_a_twin_under_another_name_does_not_run(controller: Controller) -> None:
    seal = controller.deployed("p", ONE)
    controller.deployed("q", replace(TWO, incarnation="other"))
    for name in ("q", "p2"):
        assert "was not deployed by a program on this Ray under this name" in controller.refusal(name, ONE, seal)


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_stopped_pool_does_not_run_again(controller: Controller, snapshot: bool) -> None:
    first, second = controller.deployed("p", ONE), controller.deployed("p", TWO)
    controller.seals.answer(Proven("p", TWO))
    controller.seals.answer(Ended("p", "inc"))
    controller.restart(snapshot=snapshot)
    for version, seal in ((ONE, first), (TWO, second)):
        assert "is of a pool that was stopped" in controller.refusal("p", version, seal)
    again = replace(ONE, incarnation="next", digest=b"again")
    assert controller.refusal("p", again, controller.deployed("p", again)) == ""
    assert "was stopped" in controller.refusal("p", TWO, second)


def test_what_is_not_in_the_topic_at_a_start_was_stopped(controller: Controller) -> None:
    gone, kept = controller.deployed("gone", ONE), controller.deployed("kept", TWO)
    controller.seals.answer(OnlyThese(frozenset({"kept"})))
    assert "was stopped" in controller.refusal("gone", ONE, gone)
    assert controller.refusal("kept", TWO, kept) == ""


def test_a_version_whose_deployment_failed_leaves_the_one_before(controller: Controller) -> None:
    """Its program has asked for the seal, and could not write it."""
    first = controller.deployed("p", ONE)
    controller.seal("p", TWO)
    assert controller.refusal("p", ONE, first) == ""
    other = replace(TWO, digest=b"another two")
    controller.deployed("p", other)
    assert "was replaced" in controller.refusal("p", ONE, first)
    assert controller.seals.answer(Newest("p")) == other


def test_the_good_version_runs_until_the_next_one_is_good(controller: Controller) -> None:
    first = controller.deployed("p", ONE)
    controller.seals.answer(Proven("p", ONE))
    second, third = controller.deployed("p", TWO), controller.deployed("p", THREE)
    assert controller.refusal("p", ONE, first) == "", "it is gone back to"
    assert "was replaced by version 3" in controller.refusal("p", TWO, second)
    controller.seals.answer(Proven("p", THREE))
    assert "was replaced by version 3" in controller.refusal("p", ONE, first)
    assert controller.refusal("p", THREE, third) == ""
    assert isinstance(found := controller.seals.answer(Proven("p", TWO)), Verdict)
    assert "is not gone back to" in found.refusal


@pytest.mark.parametrize("change", [{"version": 2}, {"incarnation": "x"}, {"digest": b"x"}])
def test_a_seal_is_for_all_that_it_covers(controller: Controller, change: dict[str, object]) -> None:
    seal = controller.deployed("p", ONE)
    assert "was changed since" in controller.refusal("p", replace(ONE, **change), seal)  # type: ignore[arg-type]


# --- pools of earlier releases ---


def old(name: str, version: SealedVersion, key: bytes = KEY, *, good: bool = False) -> Old:
    """As earlier releases sealed: without the name."""
    return Old(name, version, version.digest, hmac.digest(key, version.digest, "sha256"), good)


def anew(controller: Controller, *olds: Old) -> dict[bytes, bytes]:
    found = controller.seals.answer(SealAnew(olds))
    assert isinstance(found, dict)
    return found


def test_pools_sealed_before_are_sealed_anew_once(controller: Controller) -> None:
    given = anew(controller, old("p", TWO), old("p", ONE, good=True))
    assert controller.refusal("p", TWO, given[TWO.digest]) == ""
    assert controller.refusal("p", ONE, given[ONE.digest]) == ""
    controller.restart(snapshot=True)
    assert anew(controller, old("p", TWO), old("later", THREE)) == {TWO.digest: given[TWO.digest]}, "no second time"
    assert "was changed since" in controller.refusal("p", TWO, old("p", TWO).seal), "an old seal counts no more"


def test_of_an_old_pool_with_a_twin_neither_is_believed(controller: Controller) -> None:
    given = anew(controller, old("p", ONE), old("twin", ONE), old("q", replace(TWO, incarnation="other")))
    assert set(given) == {TWO.digest}


def test_what_was_not_sealed_before_is_not_sealed_anew(controller: Controller) -> None:
    assert anew(controller, old("p", ONE, key=b"another key" * 3)) == {}


@pytest.mark.conformance("N-C-07")
@pytest.mark.parametrize("snapshot", [False, True])
def test_a_controller_that_has_no_key_file_finds_the_key_in_the_metadata(tmp_path: Path, snapshot: bool) -> None:
    c = Controller(tmp_path)
    seal = c.deployed("p", ONE)
    c.take_key_over()
    (tmp_path / POOLS_KEY).unlink()
    c.restart(snapshot=snapshot)
    assert c.refusal("p", ONE, seal) == "", "a seal from before is still good"
    assert c.refusal("p", TWO, c.seal("p", TWO)) == ""
    assert "was not deployed by a program on this Ray" in c.refusal("q", TWO, seal)
