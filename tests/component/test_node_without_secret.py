"""A broker on a node that has not got the cluster's secret: the ends are ours, the test plays the Ray between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayTaskError

from actors.broker import contact
from actors.broker.actor import Broker
from actors.broker.server import BrokerServer
from actors.broker.spec import BrokerSpec, StartError
from actors.controller.process import ControllerProcess
from actors.runtime.controllers import ControllersByName
from tests.support.controller_process import Controllers
from tests.support.runtime_helpers import SECRET, run


@pytest.fixture
def controllers(tmp_path: Path) -> Iterator[Controllers]:
    (tmp_path / "cluster").mkdir()
    made = Controllers(tmp_path / "cluster")
    yield made
    for each in made.running:
        each.close()


def broker(folder: Path, asked: ControllerProcess, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A broker's actor whose node has an empty folder; `asked` is the controller that it finds."""

    def get(call: Any, timeout: float) -> Any:
        try:
            return call()
        except PermissionError as error:
            told = RayTaskError("hand_out_secret", f"Traceback\nPermissionError: {error}", error)
            raise told.as_instanceof_cause() from error

    methods = {
        "join_info": lambda: ("127.0.0.1", 1, SECRET.marks),  # nobody listens there
        "hand_out_secret": asked.hand_out_secret,
    }
    remote = {
        name: SimpleNamespace(remote=lambda *given, method=method: lambda: method(*given))
        for name, method in methods.items()
    }
    monkeypatch.setattr("ray.get_actor", lambda name, namespace: SimpleNamespace(**remote))
    monkeypatch.setattr("ray.get", get)
    actor_class = Broker.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    made = actor_class.__new__(actor_class)
    made._controllers = ControllersByName("coterie-c")
    made._spec = BrokerSpec(3, "127.0.0.1", (), str(folder / "data" / "broker-3"), str(folder / "s"), {})
    return made


@pytest.mark.conformance("N-D-07")
@pytest.mark.parametrize(
    ("asks_for_token", "config", "why"),
    [
        (False, {}, "this Ray asks for no token"),
        (True, {"coterie.internal.security": "tls"}, "connections between processes are in TLS"),
    ],
)
def test_a_broker_does_not_start_and_says_which_file_its_node_needs(
    tmp_path: Path,
    controllers: Controllers,
    monkeypatch: pytest.MonkeyPatch,
    asks_for_token: bool,
    config: dict[str, str],
    why: str,
) -> None:
    monkeypatch.setattr(contact, "_JOIN_SECONDS", 0.0)
    controllers.ray.token = asks_for_token
    made, file = broker(tmp_path / "node", controllers.begin(config=config), monkeypatch), tmp_path / "cluster/secret"
    with pytest.raises(StartError, match=f"broker 3 .*: {why}.*: no secret goes .*put {file} on the node of broker 3"):
        run(BrokerServer.open(made._spec, made._find_controller))
    assert not (tmp_path / "node").exists(), "nothing was made of its data"


@pytest.mark.conformance("N-D-07")
def test_a_ray_that_asks_for_a_token_takes_the_secret_there(
    tmp_path: Path, controllers: Controllers, monkeypatch: pytest.MonkeyPatch
) -> None:
    controllers.ray.token = True
    made = broker(tmp_path / "node", controllers.begin(), monkeypatch)
    assert made._find_controller() == ("127.0.0.1", 1, SECRET)
