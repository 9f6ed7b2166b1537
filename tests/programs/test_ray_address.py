"""A Ray at an address, started as the README says it: its token is found, and what is wrong is said in one line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.ray.ray_start import QUIET, Home, started
from tests.ray.support import free_port, produce, read_all, topic
from tests.support.ray_variables import TOKENS
from tests.support.readme import blocks, replaced

pytestmark = pytest.mark.timeout(600)  # a Ray, and a dozen programs that import it

TOKEN = "0123456789abcdef" * 2
OTHER = "fedcba9876543210" * 2

CONNECT = """
import json, os, sys
from actors.runtime import ray_connection
import ray
said = {}
for name, variables in json.loads(sys.argv[2]).items():
    os.environ.update(variables)
    ray_connection._look_again()
    try:
        ray_connection.connect(sys.argv[1])
        said[name] = "connected"
        ray.shutdown()
        ray_connection.forget_token()
    except ray_connection.ClusterError as error:
        said[name] = str(error)
    for variable in variables:
        del os.environ[variable]
print(json.dumps(said | {"left": [each for each in os.environ if each.startswith("RAY_AUTH")]}))
"""


def on_your_ray_cluster(port: int, folder: Path) -> list[str]:
    """The README's commands; only where things are, and how many, is changed."""
    code = blocks("On your Ray cluster")[0].code
    changes = {"6379": str(port), "/var/lib/coterie": str(folder / "data"), "--head": f"--head {QUIET}"}
    return replaced(code, changes | {"--brokers 3": "--brokers 1 --port 0"}).splitlines()


@pytest.fixture
def home(tmp_path: Path) -> Callable[..., Home]:
    """Make home folders."""
    return lambda name, token=None: Home(tmp_path / name, token)


@pytest.mark.conformance("N-B-04")
def test_a_ray_that_asks_for_the_token_of_the_home_folder_is_reached_by_its_address(
    home: Callable[..., Home], tmp_path: Path
) -> None:
    port = free_port()
    address = f"127.0.0.1:{port}"
    mine = home("mine", TOKEN)
    *start, up, status, down = on_your_ray_cluster(port, tmp_path)
    with started(mine, "\n".join(start)):
        done = mine.run(*up.split())
        (note, head) = done.stderr.splitlines()
        assert (done.returncode, note) == (0, NOTE), done
        assert re.match(rf"warning: the Ray at \S+:{port} keeps its state in memory: ", head), head
        servers = done.stdout.split()[1].partition("=")[2]
        produce(servers, topic(servers, "t", 1), [b"reached"])
        assert read_all(servers, "t", 1) == {b"reached"}
        rows = mine.run(*status.split(), **TOKENS).stdout.splitlines()
        assert any(row.split()[:3] == ["broker", "0", "Alive"] for row in rows), rows
        script = ["examples/start_on_ray.py", "--nodes", "1", "--name", "second", "--port", "0"]
        script += ["--security", "insecure"]
        done = mine.run(sys.executable, *script, "--data-dir", str(tmp_path / "second"), RAY_ADDRESS=address, **TOKENS)
        assert re.fullmatch(r"ready bootstrap.servers=\S+:\d+\n", done.stdout), done
        done = mine.coterie("down", "second", "--ray-address", address)
        assert (done.returncode, done.stdout) == (0, "stopped second\n"), done

        done = home("stranger", OTHER).coterie("status", "--ray-address", address, "--name", "shop")
        (line,) = done.stderr.splitlines()
        assert (done.returncode, done.stdout) == (1, "")
        assert f"the Ray at {address} does not take the token in {tmp_path}/stranger/.ray/auth_token: " in line
        situations: dict[str, dict[str, str]] = {
            "missing": {},
            "missing file": {"RAY_AUTH_TOKEN_PATH": "/nonexistent"},
            "wrong": {"RAY_AUTH_TOKEN": OTHER},
            "held back": {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": TOKEN},
            "promised": {"RAY_AUTH_MODE": "token"},
            "file": {"RAY_AUTH_TOKEN_PATH": str(mine.token_file)},
            "said": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
        }
        guest = home("guest")
        done = guest.run(sys.executable, "-c", CONNECT, address, json.dumps(situations))
        assert done.stderr == "", "Ray's C++ says nothing of its own"
        set_path = (
            "set RAY_AUTH_TOKEN_PATH to a file with its token, which for an embedded cluster is DATA_DIR/ray-token"
        )
        asks = f"the Ray at {address} asks for a token"
        assert json.loads(done.stdout) == {
            "missing": f"{asks}, but there is none in {guest.token_file}: {set_path}",
            "missing file": f"{asks}, but there is none in /nonexistent: {set_path}",
            "wrong": f"the Ray at {address} does not take the token in RAY_AUTH_TOKEN: set RAY_AUTH_TOKEN to its token",
            "held back": f"{asks}, and RAY_AUTH_MODE=disabled holds it back: unset RAY_AUTH_MODE",
            "promised": f"RAY_AUTH_MODE=token, but there is none in {guest.token_file}: {set_path}",
            "file": "connected",
            "said": "connected",
            "left": [],
        }
        done = mine.run(*down.split())
        assert (done.returncode, done.stdout) == (0, "stopped shop\n"), done


NOTE = "offsets.topic.replication.factor=1 (not 3): there are 1 broker(s)"


@pytest.fixture(scope="module")
def free(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """The address of a Ray that asks for no token, and what the README does on it."""
    folder, port = tmp_path_factory.mktemp("free"), free_port()
    *start, up, _, down = on_your_ray_cluster(port, folder)
    with started(Home(folder / "nobody"), "\n".join(start)):
        yield f"127.0.0.1:{port}", [up, down]


def test_a_ray_without_a_token_is_reached_with_and_without_a_token_in_the_home_folder(
    home: Callable[..., Home], free: tuple[str, list[str]]
) -> None:
    for user in (home("nobody"), home("somebody", OTHER)):
        done = user.coterie("status", "--ray-address", free[0], "--name", "shop")
        (line,) = done.stderr.splitlines()
        assert "no cluster called 'shop' runs on this Ray" in line


def test_a_ray_without_a_token_is_known_as_open_by_who_gives_one(
    home: Callable[..., Home], free: tuple[str, list[str]]
) -> None:
    """Where RAY_AUTH_MODE=token is set, `coterie up` and `coterie doctor` took it for a Ray that asks for a token."""
    address, (up, down) = free
    user = home("somebody", OTHER)
    done = user.run(*up.split(), **TOKENS)
    (note, warning, _) = done.stderr.splitlines()
    assert (done.returncode, note) == (0, NOTE), done
    assert warning.startswith("warning: the Ray at "), warning
    assert ": it asks for no token, so whoever reaches its ports runs code as its user: " in warning
    assert user.run(*down.split(), **TOKENS).stdout == "stopped shop\n"
    done = user.run(sys.executable, "-m", "actors.cli.main", "doctor", "--ray-address", address, **TOKENS)
    assert "it asks for no token" in done.stdout, done
    line = home("guest").run(*down.split(), **TOKENS).stderr
    assert line.startswith("coterie: RAY_AUTH_MODE=token, but there is none in "), line
