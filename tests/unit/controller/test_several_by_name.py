"""A driver starts several controllers, adds one and removes one, on a Ray that the test plays."""

from __future__ import annotations

import json
import re
import stat
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from actors.controller.asking import ControllerHandle
from actors.controller.controllers import Controllers
from actors.controller.driver_ray import ActorName
from actors.controller.secret_handover import keep, look
from actors.controller.several_by_name import start_controllers
from actors.controller.spec import ControllerSpec, VoterStart, start_told
from actors.links.secret import Marks, Secrets
from actors.runtime.data_folder import UntrustedError
from actors.runtime.environment import Clock
from actors.runtime.ray_runtime import ClusterError
from placement.nodes import Node, PlacementError
from tests.support.controller_process import SECRET, spec_in
from tests.support.fake_driver_ray import (
    FakeActor,
    FakeDriverRay,
    Method,
    in_turn,
    raising,
    refused,
    silent,
    unavailable,
)

HERE, *OTHERS = [Node(f"{i}" * 56, f"10.0.0.{i}", 2.0) for i in range(4)]
ADDRESSES = [("10.0.0.1", 9092)]


def names(spec: ControllerSpec, *ids: int) -> list[ActorName]:
    return [ActorName(spec.namespace, f"controller-{each}") for each in ids]


def seen(*roles: str) -> Method:
    """A status that shows controllers in these roles."""
    found = SimpleNamespace(
        controllers=[SimpleNamespace(id=i, role=role, host=f"10.0.0.{i}") for i, role in enumerate(roles)]
    )
    return lambda: found


def controller(**methods: Method) -> FakeActor:
    """One that starts, has no log and does not lead."""
    usual: dict[str, Method] = {
        "has_log": lambda: False,
        "join_info": lambda: ("10.0.0.0", 1, SECRET.marks),
        "own_address": lambda: ("10.0.0.1", 1),
        "leads": lambda: False,
        "start_brokers": lambda: ADDRESSES,
        "cluster_started": lambda: None,
        "status": seen("Leader", "Voter", "Voter"),
        "stop": lambda: None,
    }
    return FakeActor(**{**usual, **methods})


class World:
    """A Ray of four nodes on which three controllers start, and a clock that sleep puts forward."""

    def __init__(self, folder: Path) -> None:
        (folder / "controller").mkdir(exist_ok=True)
        self.now = 0.0
        self.clock = Clock(monotonic=lambda: self.now, sleep=self.sleep)
        self.spec = spec_in(folder)
        self.names = names(self.spec, 0, 1, 2)
        self.actors = [controller(leads=lambda: True), controller(), controller()]
        self.ray = FakeDriverRay()
        self.ray.alive = [HERE, *OTHERS]
        self.ray.made = dict(zip(self.names, self.actors, strict=True))
        self.found: Marks | None = SECRET.marks
        """The marks of the secrets that other nodes have in their files."""
        self.given: list[Secrets] = []
        self.token = True
        """True if Ray asks for a token on those nodes."""
        self.ray.run_as = self.at_node

    def at_node(self, *told: Any) -> tuple[Marks | None, bool] | None:
        match told:
            case (path,):
                assert path == self.spec.secret_file
                return self.found, self.token
            case (folder, path, secrets):
                assert (folder, path) == (self.spec.data_dir, self.spec.secret_file)
                self.given.append(secrets)
                return None
        raise AssertionError(f"nobody is asked {told}")

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def start(self) -> FakeActor:
        leader, addresses = start_controllers(self.ray, self.spec, 3, self.clock)
        assert addresses == ADDRESSES
        assert isinstance(leader, FakeActor)
        return leader

    def told(self, controller_id: int) -> VoterStart:
        found = start_told(self.ray.told[names(self.spec, controller_id)[0]])
        assert isinstance(found, VoterStart)
        return found

    def running_without_the_last(self) -> Controllers:
        """The orders about two that run, of which the first leads."""
        self.actors[0].methods |= {
            "status": seen("Leader", "Voter"),
            "in_force": lambda: (self.spec, ()),
            "add_controller": lambda: None,
        }
        handle = ControllerHandle(self.ray, self.spec.name, self.actors[0], self.clock, several=True)
        return Controllers(self.ray, self.spec.name, handle)

    def running(self) -> Controllers:
        """The orders about three that run, of which the first leads."""
        self.ray.actors = dict(zip(self.names, self.actors, strict=True))
        handle = ControllerHandle(self.ray, self.spec.name, self.actors[0], self.clock, several=True)
        return Controllers(self.ray, self.spec.name, handle)


@pytest.fixture
def w(tmp_path: Path) -> World:
    return World(tmp_path)


def methods_of(actor: FakeActor) -> list[str]:
    return [each[0] for each in actor.asked]


# --- to start them ---


def test_nodes_that_have_the_secret_get_none(w: World) -> None:
    w.start()
    assert w.given == []
    assert len(w.ray.tasks) == 2, "the first one is here"


def test_nodes_without_the_secret_get_it_before_a_controller_starts_there(
    w: World, caplog: pytest.LogCaptureFixture
) -> None:
    w.found = None
    w.start()
    assert w.given == [SECRET] * 2
    assert f"the controller on 10.0.0.1 has no {w.spec.secret_file} there" in caplog.text
    assert SECRET.current.hex() not in caplog.text
    caplog.clear()
    w.ray.actors.pop(w.names[2])
    w.running_without_the_last().add(2)
    assert w.given == [SECRET] * 3


@pytest.mark.parametrize("driver", [True, False])
@pytest.mark.parametrize(
    ("config", "token", "why"),
    [
        ({}, False, "this Ray asks for no token (RAY_AUTH_MODE): no secret goes through it; put "),
        ({"coterie.secret.file": "/etc/secret"}, True, "coterie.secret.file=/etc/secret is set: no secret goes "),
        (
            {"coterie.internal.security": "tls"},
            True,
            "connections between processes are in TLS (coterie.internal.security): no secret goes through Ray; put ",
        ),
    ],
)
def test_where_no_secret_goes_through_ray_the_node_without_it_is_named_and_nothing_starts(
    w: World, config: dict[str, str], token: bool, why: str, driver: bool
) -> None:
    w.found, w.spec = None, replace(w.spec, config=config)
    w.ray.asks_for_token, w.token = (token, True) if driver else (True, token)
    said = f"^a controller on 10.0.0.1 needs the cluster's secret, and {re.escape(why)}"
    with pytest.raises(ClusterError, match=said):
        w.start()
    assert (w.given, w.ray.names()) == ([], [])


def test_a_node_with_another_secret_is_named_and_nothing_starts(w: World) -> None:
    w.found = Secrets(b"another").marks
    with pytest.raises(ClusterError, match=r"/secret on Ray node 10.0.0.1 holds another secret .*: put the cluster's"):
        w.start()
    assert w.ray.names() == []


def test_a_node_whose_secret_cannot_be_read_is_named(w: World) -> None:
    w.ray.run_as = lambda path: raising(refused("/secret may be read by others"))()
    with pytest.raises(ClusterError, match=r"/secret on Ray node 10.0.0.1: /secret may be read by others$"):
        w.start()


def test_a_program_without_the_secret_adds_a_controller_where_it_is(w: World) -> None:
    w.start()
    w.ray.actors.pop(w.names[2])
    Path(w.spec.secret_file).unlink()
    w.running_without_the_last().add(2)
    w.ray.actors.pop(w.names[2])
    w.found = None
    with pytest.raises(ClusterError, match=r"needs the cluster's secret: call this on a node where .*/secret has it"):
        w.running_without_the_last().add(2)
    Path(w.spec.secret_file).write_text((b"another" * 5)[:32].hex())
    Path(w.spec.secret_file).chmod(0o600)
    with pytest.raises(ClusterError, match=r"needs the cluster's secret: call this on a node where .*/secret has it"):
        w.running_without_the_last().add(2)
    w.found = SECRET.marks
    w.running_without_the_last().add(2)
    assert w.given == []


def test_the_secret_is_kept_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "secret"
    assert look(str(path))[0] is None
    keep(str(path.parent), str(path), SECRET)
    assert look(str(path))[0] == SECRET.marks
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path)] == [0o700, 0o600]


def test_no_secret_is_put_where_others_may_write(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "secret.tmp").write_text("of somebody")
    folder.chmod(0o777)
    with pytest.raises(UntrustedError, match="others"):
        keep(str(folder), str(folder / "secret"), SECRET)
    assert not (folder / "secret").exists()


def test_a_node_with_another_place_for_private_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(PermissionError, match=r"private files are in .*/data on this node: put a file there, and set"):
        keep(str(tmp_path / "data"), str(tmp_path / "data" / "private" / "secret"), SECRET)


def test_each_starts_on_a_node_of_its_own_and_the_first_one_here_founds_the_cluster(w: World) -> None:
    assert w.start() is w.actors[0]
    assert [w.ray.places[name].address for name in w.names] == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]
    assert [w.told(each).founds for each in range(3)] == [True, False, False]
    assert [w.told(each).controllers for each in range(3)] == [(0, 1, 2)] * 3
    assert not any(each.killed for each in w.actors)


def test_none_founds_a_cluster_of_which_another_one_has_the_log(w: World) -> None:
    """The first one's disk may be another than it was."""
    w.actors[2].methods["has_log"] = lambda: True
    w.start()
    assert not w.told(0).founds


def test_the_one_that_leads_starts_the_brokers_and_all_hear_that_the_cluster_runs(w: World) -> None:
    w.actors[0].methods["leads"] = lambda: False
    w.actors[1].methods["leads"] = in_turn(False, True)
    assert w.start() is w.actors[1]
    assert ("start_brokers", 120.0) in w.actors[1].asked
    for each in w.actors:
        assert methods_of(each)[-1 if each is not w.actors[1] else -2] == "cluster_started"
    assert "start_brokers" not in methods_of(w.actors[0])


def test_the_next_start_has_them_where_their_logs_are(w: World) -> None:
    w.start()
    w.ray.actors.clear()
    w.ray.alive = [HERE, *reversed(OTHERS)]
    w.start()
    assert [w.ray.places[name].address for name in w.names] == ["10.0.0.0", "10.0.0.1", "10.0.0.2"]


def test_a_start_waits_for_all_votes_and_not_for_ever(w: World) -> None:
    wanting, all_voters = seen("Leader", "Voter", "Observer")(), seen("Leader", "Voter", "Voter")()
    w.actors[0].methods["status"] = in_turn(unavailable(), wanting, wanting, wanting, all_voters)
    w.start()
    assert w.now == pytest.approx(0.4)


def test_a_cluster_without_all_its_votes_serves(w: World) -> None:
    w.actors[0].methods["status"] = seen("Leader", "Voter", "Observer")
    w.start()
    assert w.now == pytest.approx(20.0, abs=0.2)


def test_too_few_nodes_are_refused_before_anything_starts(w: World) -> None:
    w.ray.alive = [HERE, OTHERS[0]]
    with pytest.raises(ClusterError, match=r"3 controllers need 3 Ray nodes.* has 2$"):
        w.start()
    assert w.ray.told == {}


def test_a_cluster_that_runs_is_refused_and_goes_on(w: World) -> None:
    w.ray.actors = {w.names[1]: controller()}
    with pytest.raises(ClusterError, match="runs on this Ray already: stop it with `coterie down"):
        w.start()
    assert w.ray.names() == [w.names[1]]


@pytest.mark.parametrize(
    ("failing", "error", "said"),
    [
        ("own_address", GetTimeoutError("no answer"), r"^Ray has not started 3 controllers within 120 s"),
        (
            "has_log",
            RayActorError("0", "x\nactors.ClusterError: the log is damaged", actor_init_failed=True),
            r"^the log is damaged; see .*logs$",
        ),
        ("start_brokers", refused("broker 1: its port is taken"), r"^broker 1: its port is taken; see .*logs$"),
        ("start_brokers", unavailable(), r"^a controller's process ended during the start: .*, see .*logs$"),
    ],
)
def test_a_start_that_fails_says_why_and_leaves_nothing_behind(
    w: World, failing: str, error: BaseException, said: str
) -> None:
    for each in w.actors:
        each.methods[failing] = raising(error)
    with pytest.raises(ClusterError, match=said):
        w.start()
    assert w.ray.told, "some had started"
    assert w.ray.names() == []


def test_a_node_with_data_that_is_not_there_ends_the_start_and_all_controllers(w: World) -> None:
    """Ray's error of a method is of the cause's class, too: that of a start that is refused before it begins."""
    cause = PlacementError("the data of broker 1 is on Ray node 10.0.0.7")
    w.actors[0].methods["start_brokers"] = raising(RayTaskError("f", "Traceback", cause).as_instanceof_cause())
    with pytest.raises(ClusterError, match=r"^the data of broker 1 is on Ray node 10.0.0.7; see .*logs$"):
        w.start()
    assert w.ray.names() == []


def test_of_two_starts_at_the_same_time_the_second_ends_only_its_own(w: World) -> None:
    other = controller()

    def start_another() -> bool:
        w.ray.actors[w.names[0]] = other
        return False

    w.actors[2].methods["has_log"] = start_another
    with pytest.raises(ClusterError, match="is being started on this Ray already"):
        w.start()
    assert (w.ray.names(), other.killed) == ([w.names[0]], False)


def test_a_controller_whose_log_is_on_a_node_that_is_not_there_is_named(w: World) -> None:
    w.start()
    w.ray.actors.clear()
    w.ray.alive = [HERE, OTHERS[0], OTHERS[2]]
    with pytest.raises(ClusterError, match=r"^the log of controller 2 is on Ray node 10\.0\.0\.2, which is not"):
        w.start()
    assert w.ray.names() == []


def test_a_start_of_which_none_leads_leaves_nothing_behind(w: World) -> None:
    w.actors[0].methods["leads"] = silent
    with pytest.raises(ClusterError, match="none of 3 controllers leads; see"):
        w.start()
    assert w.now > 120.0
    assert w.ray.names() == []


def test_a_start_that_is_broken_off_leaves_nothing_behind(w: World) -> None:
    w.actors[0].methods["start_brokers"] = raising(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        w.start()
    assert w.ray.names() == []


# --- to add one ---


def test_one_that_is_added_starts_on_a_node_without_a_controller_and_gets_a_vote(w: World) -> None:
    w.start()
    w.actors[0].methods |= {"in_force": lambda: (w.spec, 1), "add_controller": lambda: None}
    w.ray.next = controller()
    w.running().add(3)
    (name,) = names(w.spec, 3)
    assert w.ray.places[name] == OTHERS[2]
    assert (w.told(3).controllers, w.told(3).founds) == ((0, 1, 2, 3), False)
    assert methods_of(w.ray.next) == ["cluster_started"], "it takes over what runs when it leads"
    assert w.actors[0].asked[-1] == ("add_controller", 3, 60.0)
    places = json.loads((Path(w.spec.data_dir) / "controller" / "controllers.json").read_text())
    assert places["3"] == [OTHERS[2].address, ""]


def test_one_that_is_added_from_any_node_starts_on_one_without_a_controller(w: World) -> None:
    """Only the node of the first start has noted where they are."""
    w.actors[0].methods |= {"in_force": lambda: (w.spec, 1), "add_controller": lambda: None}
    w.ray.alive = [OTHERS[2], *OTHERS[:2], HERE]
    w.ray.next = controller()
    w.running().add(7)
    assert w.ray.places[names(w.spec, 7)[0]] == OTHERS[2]
    w.ray.alive = [HERE, *OTHERS[:2]]
    with pytest.raises(ClusterError, match="needs a Ray node without one; the 3 nodes of this Ray have one each"):
        w.running().add(8)


def test_one_that_runs_without_a_vote_is_not_started_again(w: World) -> None:
    w.actors[0].methods |= {"in_force": lambda: (w.spec, 1), "add_controller": lambda: None}
    w.running().add(2)
    assert w.ray.told == {}
    assert w.actors[0].asked[-1] == ("add_controller", 2, 60.0)


def test_one_whose_node_is_lost_is_added_on_another_one(w: World) -> None:
    w.start()
    w.ray.alive = [HERE, OTHERS[0], OTHERS[2]]
    w.actors[0].methods |= {"in_force": lambda: (w.spec, 1), "add_controller": lambda: None}
    controllers = w.running()
    del w.ray.actors[w.names[2]]
    controllers.add(2)
    assert w.ray.places[w.names[2]] == OTHERS[2]


def test_one_that_does_not_start_says_why_and_is_ended(w: World) -> None:
    w.actors[0].methods["in_force"] = lambda: (w.spec, 1)
    w.ray.next = controller(cluster_started=raising(refused("no secret here")))
    with pytest.raises(ClusterError, match=r"^no secret here$"):
        w.running().add(3)
    assert w.ray.next.killed
    assert "add_controller" not in methods_of(w.actors[0])


def test_a_cluster_with_one_controller_gets_no_more(w: World) -> None:
    w.actors[0].methods["status"] = seen("Leader")
    with pytest.raises(ClusterError, match="was started with one controller, and can have no more"):
        w.running().add(0)


# --- to remove one ---


def test_one_that_is_removed_loses_its_vote_and_then_its_process_ends(w: World) -> None:
    w.actors[0].methods["remove_controller"] = lambda: None
    w.running().remove(1)
    assert w.actors[0].asked[-1] == ("remove_controller", 1, 60.0)
    assert [each.killed for each in w.actors] == [False, True, False]


def test_one_that_is_not_there_any_more_only_loses_its_vote(w: World) -> None:
    w.actors[0].methods["remove_controller"] = lambda: None
    controllers = w.running()
    del w.ray.actors[w.names[1]]
    controllers.remove(1)
    assert w.actors[0].asked[-1] == ("remove_controller", 1, 60.0)


def test_one_whose_vote_cannot_be_taken_goes_on(w: World) -> None:
    w.actors[0].methods["remove_controller"] = raising(refused("controller 1 has no vote"))
    with pytest.raises(ClusterError, match=r"^controller 1 has no vote$"):
        w.running().remove(1)
    assert not w.actors[1].killed
