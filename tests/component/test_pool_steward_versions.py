"""A supervisor leads its pool from version to version, and back from one that fails. No Ray and no brokers."""

from __future__ import annotations

from actors.members.deployment.description import PoolState
from actors.members.deployment.records import Deployment, Good, Pause, Progress, keys_of
from actors.members.pools.plan import PoolError
from tests.support.steward_world import NAME, World, settled, until, version, world

__all__ = ["world"]


class Vouching:
    """Seals as a controller knows them. It does not answer the next `away` times; versions that are `over` are."""

    def __init__(self, away: int = 0) -> None:
        self.away = away
        self.over: set[int] = set()
        self.asked: list[int] = []
        self.ended_ones: list[str] = []

    def _answer(self) -> None:
        if self.away:
            self.away -= 1
            raise ConnectionError("the controller is away")

    def check(self, name: str, deployment: Deployment) -> None:
        self.asked.append(deployment.version)
        self._answer()
        if not deployment.seal:
            raise PoolError(f"version {deployment.version} was not deployed here")
        if deployment.version in self.over:
            raise PoolError(f"version {deployment.version} was replaced")

    def proven(self, name: str, deployment: Deployment) -> None:
        self._answer()

    def ended(self, name: str, incarnation: str) -> None:
        self._answer()
        self.ended_ones.append(incarnation)


def test_a_version_is_written_down_as_good_when_all_members_have_proved_it(world: World) -> None:
    world.topic.write(NAME, version(1))
    found = until(world.start(), settled)
    assert (found.version, found.running_version, found.size, len(found.members)) == (1, 1, 2, 2)
    assert sorted(world.begun) == ["p-0:good", "p-1:good"]
    record = world.topic.pool(NAME)
    assert record is not None
    assert record.good == record.deployment


def test_a_new_version_goes_through_one_member_after_the_other_and_nobody_leaves(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, "newer"))
    found = until(steward, lambda found: found.running_version == 2 and settled(found))
    assert (found.rollout is not None and found.rollout.from_version, world.removed) == (1, [])
    assert world.begun[2:] == ["p-0:newer", "p-1:newer"]


def test_a_version_that_fails_goes_back_and_a_successor_does_not_try_it_again(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, "bad"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.running_version == 1
    assert found.rollout is not None
    assert found.rollout.rolled_back == "member 0: it is bad"
    steward.close(10)
    begun = len(world.begun)
    found = until(world.start(restarted=True), lambda found: found.version == 2 and settled(found))
    assert found.running_version == 1
    assert found.rollout is not None
    assert found.rollout.rolled_back == "member 0: it is bad"
    assert sorted(world.begun[begun:]) == ["p-0:good", "p-1:good"]


def test_a_version_that_made_dead_letters_went_on_while_the_one_before_it_was_set_up_again(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, "letters"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.running_version == 1
    assert world.beside == ["p-0:letters"]


def test_a_successor_goes_on_with_a_rollout_where_it_was(world: World) -> None:
    world.topic.write(NAME, version(1, size=3), Good("one", version(1, size=3)), version(2, "newer", size=3))
    world.topic.write(NAME, Progress("one", "id2", done=(0, 1)))
    until(world.start(), lambda found: found.running_version == 2 and settled(found))
    # The third place is renewed at once: its first member may have begun until then, or not.
    assert sorted(set(world.begun) - {"p-2:good"}) == ["p-0:newer", "p-1:newer", "p-2:newer"]
    assert len(world.begun) == len(set(world.begun)), "those that have proved it are left alone"
    assert [each for each in world.begun if each.startswith("p-2")][-1] == "p-2:newer"


def test_a_version_that_cannot_be_loaded_is_rolled_back_and_a_first_one_has_failed(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, version(2, body=b"no pickle"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.rollout is not None
    assert "version 2 cannot be loaded: UnpicklingError" in str(found.rollout.rolled_back)
    assert world.begun == world.begun[:2], "no member was touched"
    world.topic.begin_anew(NAME, version(1, body=b"no pickle", incarnation="two"))
    found = until(steward, lambda found: found.state is PoolState.FAILED)
    assert "version 1 cannot be loaded" in str(found.last_error)


def test_a_version_that_nobody_vouches_for_is_never_loaded(world: World) -> None:
    world.topic.write(NAME, version(1, seal=b"sealed"))
    steward = world.start(seals=Vouching())
    until(steward, settled)
    world.topic.write(NAME, version(2, body=b"to unpickle this would be an error of another kind"))
    found = until(steward, lambda found: found.version == 2 and settled(found))
    assert found.rollout is not None
    assert found.rollout.rolled_back == "version 2 was not deployed here"
    assert world.begun == world.begun[:2], "no member was touched"


def test_who_cannot_be_asked_for_a_seal_is_asked_again(world: World) -> None:
    seals = Vouching(away=2)
    world.topic.write(NAME, version(1, seal=b"sealed"))
    until(world.start(seals=seals), settled)
    assert seals.asked[:3] == [1, 1, 1]
    assert set(seals.asked) == {1}


def test_a_stopped_pool_is_told_of_until_the_controller_has_heard(world: World) -> None:
    """Otherwise its record would run if somebody wrote it again."""
    seals = Vouching()
    world.topic.write(NAME, version(1, seal=b"sealed"))
    steward = world.start(seals=seals)
    until(steward, settled)
    seals.away = 1
    world.topic.remove(keys_of(NAME))
    until(steward, lambda found: found.state is PoolState.STOPPED)
    assert seals.ended_ones[0] == "one"


def test_a_version_that_was_replaced_does_not_run_again_though_it_is_loaded_still(world: World) -> None:
    seals = Vouching()
    world.topic.write(NAME, version(1, seal=b"sealed"))
    steward = world.start(seals=seals)
    until(steward, settled)
    world.topic.write(NAME, version(2, seal=b"sealed"))
    until(steward, lambda found: found.running_version == 2 and settled(found))
    seals.over = {1}
    world.topic.write(NAME, version(1, seal=b"sealed"))
    found = until(steward, lambda found: found.version == 1 and settled(found))
    assert found.rollout is not None
    assert found.rollout.rolled_back == "version 1 was replaced"
    assert found.running_version == 2


def test_a_version_that_was_deployed_in_a_pause_is_the_only_one_that_is_started_after_it(world: World) -> None:
    """A user who pauses a pool because its handler is wrong does not want that handler once more."""
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, Pause("one", True))
    until(steward, lambda found: found.state is PoolState.PAUSED and not found.members)
    world.topic.write(NAME, version(2, "newer"), Pause("one", False))
    until(steward, lambda found: found.running_version == 2 and settled(found) and len(found.members) == 2)
    assert sorted(world.begun[2:]) == ["p-0:newer", "p-1:newer"]


def test_a_bad_version_that_was_deployed_in_a_pause_is_gone_back_from(world: World) -> None:
    world.topic.write(NAME, version(1))
    steward = world.start()
    until(steward, settled)
    world.topic.write(NAME, Pause("one", True))
    until(steward, lambda found: found.state is PoolState.PAUSED and not found.members)
    world.topic.write(NAME, version(2, "bad"), Pause("one", False))
    found = until(steward, lambda found: found.version == 2 and settled(found) and len(found.members) == 2)
    assert (found.running_version, sorted(world.begun[2:4])) == (1, ["p-0:bad", "p-1:bad"])
    assert sorted(world.begun[4:]) == ["p-0:good", "p-1:good"]
