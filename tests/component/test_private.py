"""Things that only our own user may see: SECURITY.md, X-E.3."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.broker.actor import Broker, own_secrets
from actors.broker.spec import BrokerSpec, BrokerStart, StartError
from actors.controller.pool_seals import POOLS_KEY, key_in, seal_of_pool
from actors.controller.preparation import prepare_folder, socket_dir
from actors.links.secret import Marks, Secrets, mark, next_of, previous_of, read_secret
from actors.links.versions import OWN
from actors.runtime.logs import LogPlace
from actors.runtime.private import is_ours, narrow, private_folder, write_private
from actors.runtime.ray_runtime import ClusterError
from actors.settings import BrokerConfig, SettingError
from actors.wire import messages
from placement.sealed_pools import SealedVersion
from tests.support.three_brokers import World, world


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that exists belongs to somebody else."""
    mine = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)


@pytest.fixture
def short_tempdir(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files lie in a folder of the test, whose path leaves room for that of a Unix socket."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("s")))


# --- files ---


@pytest.mark.conformance("XE-20")
def test_files_of_a_data_directory_that_others_can_read_are_narrowed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    prepare_folder(folder)
    assert [mode(folder), mode(folder / "controller"), mode(folder / "secret")] == [0o700, 0o700, 0o600]
    write_private(folder / "ray-token", "token")
    (folder / "logs").mkdir()
    for path in (folder / "secret", folder / POOLS_KEY, folder / "ray-token", folder / "controller", folder / "logs"):
        path.chmod(0o755)
    with caplog.at_level(logging.WARNING):
        prepare_folder(folder)
    assert [mode(folder / name) for name in ("controller", "logs", "ray-token", "secret", POOLS_KEY)] == [0o700] * 5
    assert caplog.text.count("could be read by others") == 5


def test_each_cluster_seals_what_is_deployed_on_it_with_a_key_of_its_own(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        prepare_folder(folder)
    assert mode(folders[0] / POOLS_KEY) == 0o600
    versions = [SealedVersion("one", number, b"digest") for number in (1, 2)]
    seals = [seal_of_pool(key_in(folder), "p", version) for folder in folders for version in versions]
    assert len(set(seals)) == 4
    prepare_folder(folders[0])
    assert seal_of_pool(key_in(folders[0]), "p", versions[0]) == seals[0], "also after another start"


@pytest.mark.conformance("XE-20")
def test_a_file_that_another_user_made_is_refused(tmp_path: Path, another_user: None) -> None:
    path = tmp_path / "secret"
    path.touch(0o644)
    with pytest.raises(PermissionError, match="secret belongs to another user"):
        narrow(path)
    narrow(tmp_path / "not-there")


# --- the folder of the sockets ---


@pytest.mark.conformance("XE-21")
def test_the_socket_folder_is_made_private_and_stays_the_same(tmp_path: Path, short_tempdir: None) -> None:
    """Nobody can guess its name without the secret."""
    secrets = [prepare_folder(tmp_path / name) for name in "ab"]
    made = socket_dir(tmp_path / "a", secrets[0])
    assert mode(made) == 0o700
    assert made == socket_dir(tmp_path / "a", secrets[0])
    others = [socket_dir(tmp_path / "a", secrets[1]), socket_dir(tmp_path / "b", secrets[1])]
    assert len({made, *others}) == 3


@pytest.mark.conformance("XE-21")
def test_a_socket_folder_is_made_with_those_above_it_and_inside_a_folder_of_a_group(tmp_path: Path) -> None:
    """The driver's TMPDIR need not exist on each node, and may hand its group on to what is made in it."""
    scratch = tmp_path / "scratch"
    private_folder(scratch / "job" / "sockets")
    (scratch / "job").chmod(0o2775)
    private_folder(scratch / "job" / "others")
    assert mode(scratch / "job" / "others") & 0o777 == 0o700
    private_folder(scratch / "job" / "others")


@pytest.mark.conformance("XE-21", "XG-14")
@pytest.mark.parametrize("prepared", ["link", "file", "open to all"])
def test_a_prepared_socket_folder_is_refused(tmp_path: Path, prepared: str) -> None:
    path = tmp_path / "sockets"
    if prepared == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        path.symlink_to(tmp_path / "elsewhere")
    elif prepared == "file":
        path.touch()
    else:
        path.mkdir()
        path.chmod(0o777)
    with pytest.raises((PermissionError, FileExistsError), match="sockets"):
        private_folder(path)


@pytest.mark.conformance("XE-21")
def test_another_users_socket_folder_is_refused_by_the_driver_and_by_a_broker(
    tmp_path: Path, short_tempdir: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This holds on every node, whoever made the folder."""
    secret = prepare_folder(tmp_path / "data")
    mine = os.geteuid()
    socket_dir(tmp_path / "data", secret)
    monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
    with pytest.raises(ClusterError, match="belongs to another user: set TMPDIR"):
        socket_dir(tmp_path / "data", secret)


@pytest.mark.conformance("XE-21")
async def test_a_broker_does_not_start_beside_a_socket_folder_that_others_may_enter(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "s").mkdir()
    (tmp_path / "s").chmod(0o777)
    with pytest.raises(StartError, match=r"cannot listen for its shards: .*has mode 777, others may have been in it"):
        await world.start(1)
    await world.stop()


# --- variables ---


@pytest.mark.conformance("XE-25")
def test_a_variable_that_was_taken_is_neither_inherited_nor_shown(tmp_path: Path) -> None:
    script = """
import os, subprocess
from pathlib import Path
from actors.runtime.private import take_variable
print([take_variable(name) for name in ("THE_PASSWORD", "THE_PASSWORD", "ANOTHER")])
print("swordfish" in Path("/proc/self/environ").read_text())
print("swordfish" in subprocess.run(["env"], capture_output=True, text=True, check=True).stdout)
print(os.environ["THE_OTHER"])
"""
    given = {**os.environ, "THE_PASSWORD": "swordfish", "THE_OTHER": "kept"}
    done = subprocess.run([sys.executable, "-c", script], env=given, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["['swordfish', None, None]", "False", "False", "kept"], done.stderr


# --- where our own processes listen ---


@pytest.mark.conformance("XE-07")
async def test_our_own_ports_are_at_one_address_and_in_no_answer(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        listeners = [w.node.acceptor.listening, *(server.replicas.listener.listening for server in w.servers.values())]
        own = [bound.getsockname() for listener in listeners for bound in listener.sockets]
        assert {host for host, _ in own} == {"127.0.0.1"}
        assert len(own) == 4
        told = set()
        for broker_id in w.servers:
            client = await w.client(broker_id)
            for request, version in (messages.MetadataRequest(topics=None), 12), (messages.DescribeClusterRequest(), 0):
                told |= {each.port for each in (await client.ask(request, version)).brokers}
            client.close()
        assert told == {server.socket_server.ports["PLAINTEXT"] for server in w.servers.values()}
        assert not told & {port for _, port in own}


# --- the cluster's secret ---


def broker_spec(data_dir: Path, **config: str) -> BrokerSpec:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    return BrokerSpec(3, "127.0.0.1", (), str(data_dir / "broker-3"), "", settings)


@pytest.mark.conformance("XE-34")
def test_a_broker_reads_the_secret_from_its_nodes_file_and_needs_no_other_way(tmp_path: Path) -> None:
    secret = read_secret(prepare_folder(tmp_path / "data"))
    assert own_secrets(broker_spec(tmp_path / "data"), Marks(mark(secret))) == Secrets(secret)


@pytest.mark.conformance("XE-34", "N-D-07")
def test_a_file_that_is_missing_or_of_another_cluster_leaves_a_broker_to_ask(tmp_path: Path) -> None:
    secret = read_secret(prepare_folder(tmp_path / "data"))
    prepare_folder(tmp_path / "other")
    assert own_secrets(broker_spec(tmp_path / "nowhere"), Marks(mark(secret))) is None
    assert own_secrets(broker_spec(tmp_path / "other"), Marks(mark(secret))) is None
    assert secret not in mark(secret)


@pytest.mark.conformance("XE-06")
def test_of_two_secrets_a_node_finds_which_is_which_whatever_its_files_are_called(tmp_path: Path) -> None:
    path = prepare_folder(tmp_path / "data")
    older, newer = read_secret(path), bytes(range(32))
    next_of(path).write_text(newer.hex())
    spec = broker_spec(tmp_path / "data")
    for secrets in (Secrets(older, next=newer), Secrets(newer, previous=older), Secrets(newer)):
        assert own_secrets(spec, secrets.marks) == secrets
    next_of(path).rename(previous_of(path))
    assert own_secrets(spec, Marks(mark(newer), previous=mark(older))) == Secrets(newer, previous=older)
    assert newer.hex() not in repr(Secrets(newer)) + repr(Secrets(newer).marks)


def test_the_secrets_file_is_named_by_an_absolute_path() -> None:
    with pytest.raises(SettingError, match=r"coterie\.secret\.file: must be an absolute path"):
        BrokerConfig.from_mapping({"coterie.secret.file": "own-secret"})


@pytest.mark.conformance("XE-33", "XE-34", "N-D-07")
@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (None, "No such file"),
        ("precious" * 8, "has to hold 64 hexadecimal digits and nothing else"),
        ("ab" * 32, "holds another secret than the controller has"),
    ],
)
def test_a_named_file_that_is_not_the_secret_is_an_error_of_node_and_path(
    tmp_path: Path, content: str | None, wrong: str
) -> None:
    secret = read_secret(prepare_folder(tmp_path / "data"))
    file = tmp_path / "own-secret"
    if content is not None:
        file.write_text(content)
    with pytest.raises(StartError, match=wrong) as raised:
        own_secrets(broker_spec(tmp_path / "data", coterie_secret_file=str(file)), Marks(mark(secret)))
    assert f"broker 3 on {socket.gethostname()}: coterie.secret.file" in str(raised.value)
    assert str(file) in str(raised.value)
    assert content is None or content not in str(raised.value)


@pytest.mark.conformance("XE-34")
def test_a_start_with_a_named_secret_makes_no_other(tmp_path: Path) -> None:
    file = tmp_path / "own-secret"
    with pytest.raises(ClusterError, match=r"the cluster's secret cannot be read: .*own-secret"):
        prepare_folder(tmp_path / "data", str(file))
    file.write_text("ab" * 32 + "\n")
    assert prepare_folder(tmp_path / "data", str(file)) == file
    assert not (tmp_path / "data" / "secret").exists()


@pytest.mark.conformance("XE-26")
@pytest.mark.parametrize(("most", "limit"), [(resource.RLIM_INFINITY, 1), (1 << 20, 1), (0, 0)])
def test_a_process_with_secrets_leaves_no_core_dump(tmp_path: Path, most: int, limit: int) -> None:
    script = f"""
import os, resource
from actors.runtime.private import leave_no_core
resource.setrlimit(resource.RLIMIT_CORE, ({most}, {most}))
leave_no_core()
print(resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True)
os.abort()
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == -signal.SIGABRT, ended.stderr
    assert ended.stdout == f"{limit}\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.conformance("XE-26")
@pytest.mark.parametrize(("config", "calls"), [({}, 1), ({"coterie.debug.core": "true"}, 0)])
def test_brokers_leave_none_unless_it_is_wanted(
    tmp_path: Path, config: dict[str, str], calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[bool] = []
    made = Broker.__ray_metadata__.modified_class  # type: ignore[attr-defined]
    for name in ("keep_private", "settle_memory", "log_to", "audit_to", "leave_no_core"):
        note = (lambda *_: called.append(True)) if name == "leave_no_core" else (lambda *_, **__: None)
        monkeypatch.setitem(inspect.unwrap(made.__init__).__globals__, name, note)
    none = SimpleNamespace(ask=lambda niceness: None)  # it would be ours
    monkeypatch.setitem(inspect.unwrap(made.__init__).__globals__, "priority", none)
    spec = BrokerSpec(3, "127.0.0.1", (), str(tmp_path), "", config)
    made(BrokerStart(OWN, spec, "n", LogPlace(str(tmp_path), "n")).encoded())
    assert len(called) == calls


# --- who is at the other end ---


@pytest.mark.conformance("XE-22")
async def test_the_kernel_says_whose_process_is_at_the_other_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any process of our own user is let in, here a real one; the same one is not, as if we were another user."""
    found: list[bool] = []
    asked = asyncio.Event()

    class Asking(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            found.append(is_ours(transport))
            mine = os.geteuid()
            monkeypatch.setattr(os, "geteuid", lambda: mine + 1)
            found.append(is_ours(transport))
            transport.close()
            asked.set()

    path = str(tmp_path / "s")
    server = await asyncio.get_running_loop().create_unix_server(Asking, path)
    code = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.recv(1)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, path)
    await asked.wait()
    server.close()
    assert await process.wait() == 0
    assert found == [True, False]


# --- the log ---


@pytest.mark.conformance("XC-09")
def test_a_processs_log_has_what_is_said_of_denials(tmp_path: Path) -> None:
    script = f"""
import logging
from actors.runtime.logs import LogPlace
from actors.runtime.process import log_to
log_to(LogPlace({str(tmp_path / "logs")!r}, "shop"), "broker-0")
logging.getLogger("coterie.audit").info("User:eve may not")
logging.getLogger("actors.broker").info("a broker speaks")
logging.getLogger("actors.broker").info("of \\u00e9")
"""
    # Where the locale has ASCII alone, a client whose name has other letters was left out of the log.
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | locale)
    lines = (tmp_path / "logs" / "broker-0.log").read_text(encoding="utf-8").splitlines()
    assert [line.split(" INFO ")[1] for line in lines] == [
        "coterie.audit: User:eve may not [cluster=shop]",
        "actors.broker: a broker speaks [cluster=shop]",
        "actors.broker: of \u00e9 [cluster=shop]",
    ]
