"""A controller that starts on a node without the cluster's secret gets it from another one, if that may be."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ray.exceptions import RayTaskError

from actors.controller.spec import VoterStart
from actors.controller.voter_secret import secrets_of_voter
from actors.links.secret import Secrets, read_secrets
from actors.links.versions import OWN
from actors.runtime.environment import Clock
from actors.runtime.ray_runtime import ClusterError
from tests.support.controller_process import SECRET, spec_in
from tests.support.fake_driver_ray import another_leads, unavailable
from tests.support.fake_ray import FakeRay


class Other:
    """Another controller, that is asked for the secret."""

    def __init__(self, *answers: Secrets | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def hand_out_secret(self, asks: str) -> Secrets:
        self.asked.append(asks)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class World:
    """The second one of three controllers. Its node has lost its disk."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.ray = FakeRay()
        spec = spec_in(folder)
        self.file = Path(spec.secret_file)
        self.file.unlink(missing_ok=True)
        self.told = VoterStart(OWN, spec, 1, (0, 1, 2), founds=False)

    def others(self, zero: Other, two: Other | None = None) -> None:
        self.ray.answering = {"controller-0": zero} | ({"controller-2": two} if two is not None else {})
        self.ray.named = ["broker-0-1", "controller-0", "controller-1", "controller-2"]

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def secrets(self) -> Secrets:
        return secrets_of_voter(self.told, self.ray, Clock(monotonic=lambda: self.now, sleep=self.sleep))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.mark.conformance("N-D-07")
def test_it_gets_the_secret_from_another_one_and_keeps_it_in_its_file(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    zero = Other(SECRET)
    world.others(zero)
    with caplog.at_level("WARNING"):
        assert world.secrets() == SECRET
    (asked,) = zero.asked
    assert asked.startswith("controller 1, on ")
    assert read_secrets(world.file) == SECRET
    assert world.file.stat().st_mode & 0o077 == 0
    assert "controller-0 has handed the secret out" in caplog.text
    assert SECRET.current.hex() not in caplog.text
    world.others(Other(AssertionError("it has a file by now")))
    assert world.secrets() == SECRET


def test_all_others_are_asked_and_again_until_one_leads(world: World) -> None:
    world.others(Other(another_leads()), Other(unavailable(), another_leads(), SECRET))
    assert world.secrets() == SECRET
    assert world.now == 2.0


def test_after_a_minute_without_an_answer_it_says_what_is_missing_and_why(world: World) -> None:
    world.others(Other(unavailable()))
    with pytest.raises(ClusterError, match=r"secret: put it into .*/secret there \(there is no actor"):
        world.secrets()
    assert 60 <= world.now < 63


def no_token() -> Exception:
    error: Exception = RayTaskError(
        "hand_out_secret", "Traceback\nPermissionError: this Ray asks for no token", PermissionError("no token")
    ).as_instanceof_cause()
    return error


def damaged(world: World) -> None:
    world.file.write_text("not a secret")


def unreadable(world: World) -> None:
    world.file.mkdir()


@pytest.mark.parametrize("harm", [damaged, unreadable])
def test_a_file_that_is_there_and_no_good_is_said_at_once(world: World, harm: Callable[[World], None]) -> None:
    harm(world)
    zero = Other(SECRET)
    world.others(zero)
    with pytest.raises(ClusterError, match="needs the cluster's secret: put it into"):
        world.secrets()
    assert (zero.asked, world.now) == ([], 0.0)


@pytest.mark.conformance("XE-34")
def test_what_may_not_go_through_ray_is_not_asked_for_again(world: World) -> None:
    world.others(Other(no_token()))
    with pytest.raises(ClusterError, match=r"needs the cluster's secret.*this Ray asks for no token"):
        world.secrets()
    assert world.now == 0.0
    assert not world.file.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="the modes of folders do not concern anybody else")
def test_it_is_kept_only_in_a_folder_that_nobody_else_may_write(world: World) -> None:
    world.file.parent.chmod(0o777)
    world.others(Other(SECRET))
    with pytest.raises(ClusterError, match="needs the cluster's secret"):
        world.secrets()
    assert not world.file.exists()
