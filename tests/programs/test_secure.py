"""`coterie up --secure` as a user has it: one flag, a file to log in by, and strangers who get nowhere."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import confluent_kafka
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from actors.controller.metadata.standalone import StandaloneLog
from actors.security.scram import ScramCredential, ScramMechanism, salted_password
from coterie import Cluster, ConsumerPool, Producer
from tests.compat.peers import UnavailableError
from tests.compat.remote import CONFIGS, TOOLS, run_tools, start_remote
from tests.ray.handlers import Recorder
from tests.ray.support import Up, coterie, descendants, up, wait_until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> object:
    mechanisms = "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN"
    options = ["--secure", "--config", mechanisms]
    with up(tmp_path_factory.mktemp("secure") / "data", *options, brokers=3, umask=0) as cluster:
        yield cluster


def seen_of(process: psutil.Process) -> tuple[str, list[str]] | None:
    """A process's arguments and environment, and the Unix sockets it has; None if it has just ended."""
    try:
        words = " ".join((*process.cmdline(), *process.environ().values()))
        return words, [each.laddr for each in process.net_connections("unix")]
    except psutil.NoSuchProcess:
        return None


def all_seen(cluster: Up) -> list[tuple[str, list[str]]]:
    family = [cluster.process.pid, *(process.pid for process in descendants(cluster.process.pid))]
    return [look for pid in family if psutil.pid_exists(pid) and (look := seen_of(psutil.Process(pid))) is not None]


def open_to_others(folder: Path) -> list[str]:
    """Files and folders that another user may enter, read or change, with their modes."""
    return [f"{path} {path.lstat().st_mode:o}" for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & 0o077]


def forms(secret: bytes) -> set[bytes]:
    """The forms in which a log may have a secret."""
    return {secret, secret.hex().encode(), base64.b64encode(secret), repr(secret)[2:-1].encode()}


def everything(folders: Iterable[Path]) -> bytes:
    """The content of all files below some folders."""
    return b"\n".join(path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file())


def sessions_of(cluster: Up) -> set[Path]:
    """The folder of the cluster's Ray, as its processes were told."""
    words = "\n".join(words for words, _ in all_seen(cluster))
    return {Path(found) for found in re.findall(r"/[^\s=:,]*/session_\d[\d_-]*", words)}


def credentials(data: Path, copy: Path) -> Iterator[tuple[ScramMechanism, ScramCredential]]:
    """The SCRAM credentials in a copy of the cluster's metadata log."""
    copy.mkdir()
    shutil.copy(data / "controller" / "metadata.log", copy)
    log = StandaloneLog(copy / "metadata.log")
    for (_, number), kept in log.committed.scram.items():
        yield next(each for each in ScramMechanism if each.code == number), ScramCredential(*kept)
    log.close()


def data_of(cluster: Up) -> Path:
    command = cluster.process.args
    assert isinstance(command, list)
    return Path(command[command.index("--data-dir") + 1])


def password(properties: Path) -> str:
    return properties.read_text().partition('password="')[2].partition('"')[0]


def librdkafka(cluster: Up, **more: str) -> dict[str, str]:
    properties = data_of(cluster) / "client.properties"
    login = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(data_of(cluster) / "ca.pem")}
    login |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "admin", "sasl.password": password(properties)}
    return {"bootstrap.servers": cluster.servers} | login | {key.replace("_", "."): text for key, text in more.items()}


def test_the_commands_log_in_by_the_file_that_the_start_wrote(running: Up) -> None:
    properties = data_of(running) / "client.properties"
    assert stat.S_IMODE(properties.stat().st_mode) == 0o600
    login = ["--bootstrap-server", running.servers, "--command-config", str(properties)]
    assert coterie("topics", "create", "t", "--partitions", "3", "--replication-factor", "3", *login).returncode == 0
    described = coterie("topics", "describe", "t", "--format", "json", *login)
    assert len(json.loads(described.stdout)) >= 1, described
    assert "client.properties" in "".join(running.errors)


def test_other_clients_log_in_and_a_stranger_gets_nowhere(running: Up) -> None:
    known = AdminClient(librdkafka(running))
    assert len(known.list_topics(timeout=30).brokers) == 3
    failures: list[str] = []
    wrong = librdkafka(running, sasl_password="wrong") | {"error_cb": lambda error: failures.append(error.name())}
    stranger = AdminClient(wrong)
    wait_until(lambda: stranger.poll(0.1) >= 0 and "_AUTHENTICATION" in failures, what="a refusal")
    with pytest.raises(confluent_kafka.KafkaException):
        stranger.list_topics(timeout=1)
    plain = AdminClient({"bootstrap.servers": running.servers})
    with pytest.raises(confluent_kafka.KafkaException):
        plain.list_topics(timeout=1)


def test_who_is_added_may_do_what_is_said(running: Up, tmp_path: Path) -> None:
    login = ["--bootstrap-server", running.servers, "--command-config", str(data_of(running) / "client.properties")]
    secret = tmp_path / "password"
    secret.write_text("pa$$word of ann\n")
    secret.chmod(0o600)
    assert coterie("topics", "create", "orders", *login).returncode == 0
    assert coterie("users", "set", "ann", "--password-file", str(secret), *login).returncode == 0
    added = coterie("acls", "add", "--allow-principal", "User:ann", "--producer", "--topic", "orders", *login)
    assert added.returncode == 0, added
    ann = librdkafka(running, sasl_username="ann", sasl_password="pa$$word of ann")
    outcomes: list[object] = []
    producer = confluent_kafka.Producer(ann)
    for topic in ("orders", "t"):
        producer.produce(topic, b"v", on_delivery=lambda error, _: outcomes.append(error and error.name()))
    producer.flush(30)
    assert sorted(map(str, outcomes)) == ["None", "TOPIC_AUTHORIZATION_FAILED"]


@pytest.mark.conformance("XG-01")
def test_kafkas_own_tools_log_in_by_the_file_and_make_somebody_who_may_read(running: Up, tmp_path: Path) -> None:
    properties = data_of(running) / "client.properties"
    admin = ("--bootstrap-server", running.servers, "--command-config", str(properties))
    jays = tmp_path / "jay.properties"
    changed = properties.read_text().replace('username="admin"', 'username="jay"')
    jays.write_text(changed.replace(password(properties), "feathers"))
    who = ("--allow-principal", "User:jay", "--consumer", "--topic", "told", "--group", "jays")
    jay = ("--entity-type", "users", "--entity-name", "jay")
    scram = "SCRAM-SHA-512=[iterations=4096,password=feathers]"
    reads = (f"{TOOLS}.consumer.ConsoleConsumer", "--bootstrap-server", running.servers, "--consumer.config", str(jays))
    reads += ("--group", "jays", "--from-beginning", "--max-messages", "20", "--timeout-ms", "60000", "--topic")
    try:
        with start_remote("java", tmp_path) as java:
            made = run_tools(
                java,
                [
                    (f"{TOOLS}.TopicCommand", *admin, "--create", "--topic", "told", "--partitions", "3"),
                    (CONFIGS, *admin, "--alter", "--add-config", scram, *jay),
                    (f"{TOOLS}.AclCommand", *admin, "--add", *who),
                ],
            )
            assert [each.status for each in made] == [0, 0, 0], made
            producer = confluent_kafka.Producer(librdkafka(running))
            for number in range(20):
                producer.produce("told", b"told-%d" % number)
            assert producer.flush(60) == 0
            read, refused, listed = run_tools(
                java, [(*reads, "told"), (*reads, "t"), (f"{TOOLS}.AclCommand", *admin, "--list", "--topic", "told")]
            )
    except UnavailableError as reason:
        pytest.skip(f"Kafka's tools cannot run here: {reason}")
    assert {f"told-{number}" for number in range(20)} <= set(read.text.split()), read
    assert refused.text.endswith("Processed a total of 0 messages\n")
    assert "principal=User:jay, host=*, operation=READ, permissionType=ALLOW" in listed.text


@pytest.mark.conformance("XE-20", "XE-21", "XG-14")
def test_another_user_finds_no_file_no_argument_and_no_variable_whatever_the_umask(running: Up) -> None:
    login = ["--bootstrap-server", running.servers, "--command-config", str(data_of(running) / "client.properties")]
    assert coterie("groups", "list", *login).returncode == 0, "which makes shards, with their logs and sockets"
    assert open_to_others(data_of(running)) == []
    seen = all_seen(running)
    sockets = {Path(path) for _, paths in seen for path in paths if re.search("/coterie-[0-9a-f]{12}/", path)}
    assert "0.sock" in {path.name for path in sockets}
    assert {stat.S_IMODE(path.parent.stat().st_mode) for path in sockets} == {0o700}
    hidden = [password(data_of(running) / "client.properties"), (data_of(running) / "secret").read_text().strip()]
    hidden.append((data_of(running) / "ray-token").read_text().strip())
    assert [len(each) for each in hidden] == [48, 64, 64]
    assert len(seen) > 10
    assert not [words[:200] for words, _ in seen if any(each in words for each in hidden)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_moved_a_socket_of_rays_and_a_killed_broker_did_not_come_back(running: Up) -> None:
    """Ray lets everybody write to the folder of its sockets."""
    assert sessions_of(running), "their folders are known"
    for session in sessions_of(running):
        assert stat.S_IMODE((session / "sockets").stat().st_mode) == 0o777
        attempts = [session / "sockets", session, session.parent]
        script = "import os, sys\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        script += (
            "for path in sys.argv[1:]:\n    for attempt in (os.listdir, lambda path: os.rename(path, path + '2')):\n"
        )
        script += (
            "        try:\n            attempt(path)\n        except PermissionError:\n            print('refused')"
        )
        command = [sys.executable, "-c", script, *map(str, attempts), str(session / "sockets" / "raylet")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout.split() == ["refused"] * 8, done
    (broker, *_) = json.loads(coterie("status", "--data-dir", str(data_of(running)), "--format", "json").stdout)[
        "brokers"
    ]
    os.kill(broker["pid"], signal.SIGKILL)
    login = ["--bootstrap-server", running.servers, "--command-config", str(data_of(running) / "client.properties")]

    def is_back() -> bool:
        found = json.loads(coterie("status", "--data-dir", str(data_of(running)), "--format", "json").stdout)
        return all(each["alive"] and each["pid"] != broker["pid"] for each in found["brokers"])

    wait_until(is_back, what="the broker")
    assert coterie("groups", "list", *login).returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
@pytest.mark.parametrize("prepared", ["secret", "ray-token", "folder"])
def test_a_start_took_the_secret_and_the_token_that_another_user_had_put_there(tmp_path: Path, prepared: str) -> None:
    """With the secret that user joined as a broker; with the token that user ran code."""
    (tmp_path / "his").write_text("ab" * 32)
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    if prepared == "folder":
        data.chmod(0o777)
    else:
        (data / prepared).symlink_to(tmp_path / "his")
    os.chown(data if prepared == "folder" else data / prepared, 65534, 65534, follow_symlinks=False)
    done = coterie("up", "--secure", "--port", "0", "--data-dir", str(data))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert re.search(f"data directory {data}.* (is a link|belongs to another user)", done.stderr)
    assert {path.name for path in data.iterdir()} <= {prepared, "controller"}


def test_data_that_a_secure_cluster_has_served_was_opened_in_plaintext_without_a_word(running: Up) -> None:
    done = coterie("up", "--port", "0", "--data-dir", str(data_of(running)))
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "has been served with TLS, logins and ACLs, which this start leaves out: start it with --secure" in (
        done.stderr
    )


@pytest.mark.conformance("XE-42", "XG-15")
def test_no_secret_is_in_any_log_answer_or_error_whatever_has_happened(running: Up, tmp_path: Path) -> None:
    """Logins by each mechanism, a new user, a wrong password, a denial, and a crash of which Ray writes a stack."""
    data, wrong, his = data_of(running), "wrong-swordfish", "swordfish of eve"
    (tmp_path / "password").write_text(his)
    (tmp_path / "password").chmod(0o600)
    login = ["--bootstrap-server", running.servers, "--command-config", str(data / "client.properties")]
    make = ["users", "set", "eve", "--password-file", str(tmp_path / "password")]
    said = [coterie(*make, "--mechanism", each.wire_name, *login) for each in ScramMechanism]
    failures: list[str] = []
    for mechanism, user, text in (
        ("SCRAM-SHA-256", "eve", his),
        ("PLAIN", "eve", his),
        ("SCRAM-SHA-512", "admin", password(data / "client.properties")),
        ("SCRAM-SHA-256", "eve", wrong),
        ("PLAIN", "eve", wrong),
    ):
        config = librdkafka(running, sasl_mechanism=mechanism, sasl_username=user, sasl_password=text)
        client = AdminClient(config | {"error_cb": lambda error: failures.append(error.str())})
        try:
            failures.append(str(client.describe_cluster(request_timeout=5).result(20)))
        except (confluent_kafka.KafkaException, TimeoutError) as error:
            failures.append(str(error))
        client.poll(0)
    as_eve = tmp_path / "eve.properties"
    text = (data / "client.properties").read_text().replace('"admin"', '"eve"')
    as_eve.write_text(text.replace(password(data / "client.properties"), his))
    as_eve.chmod(0o600)
    login[-1] = str(as_eve)
    said.append(coterie("topics", "create", "forbidden", *login))
    assert "TOPIC_AUTHORIZATION_FAILED" in said[-1].stderr, said[-1]
    before = json.loads(coterie("status", "--data-dir", str(data), "--format", "json").stdout)
    victim = next(each for each in before["brokers"] if each["id"] == 2)
    os.kill(victim["pid"], signal.SIGABRT)
    logs = [data / "logs", *sessions_of(running)]
    wait_until(lambda: b"Fatal Python error" in everything(logs), what="the stack of the broker that crashed")
    said.append(coterie("status", "--data-dir", str(data), "--format", "json"))
    assert b"User:eve" in everything([data / "logs"]), "the denial"
    told = [*failures, *running.errors, *(each.stdout + each.stderr for each in said)]
    found = everything(logs) + "\n".join(told).encode()
    passwords = [each.encode() for each in (his, wrong, password(data / "client.properties"))]
    kept = [bytes.fromhex((data / "secret").read_text())]
    for mechanism, made in credentials(data, tmp_path / "controller"):
        salted = [salted_password(mechanism, each.decode(), made.salt, made.iterations) for each in passwords]
        kept += [made.stored_key, made.server_key, *salted]
    hidden = {form for secret in kept for form in forms(secret)} | set(passwords)
    assert len(hidden) > 40
    assert not [each for each in hidden if each in found]


def test_a_pool_of_a_secure_cluster_and_a_start_on_the_same_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with Cluster.start(1, secure=True, data_dir=data, config={"group.initial.rebalance.delay.ms": "0"}) as cluster:
        before = password(data / "client.properties")
        login = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(data / "ca.pem"),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": "admin",
            "sasl_password_file": str(tmp_path / "password"),
        }
        (tmp_path / "password").write_text(before)
        (tmp_path / "password").chmod(0o600)
        arguments = ["--bootstrap-server", cluster.bootstrap_servers]
        arguments += ["--command-config", str(data / "client.properties")]
        assert coterie("topics", "create", "jobs", "--partitions", "4", *arguments).returncode == 0
        servers = cluster.bootstrap_servers
        with Producer(bootstrap_servers=servers, **login) as producer:
            for number in range(100):
                producer.send("jobs", b"%d" % number)
            producer.flush()
        options = {"auto_offset_reset": "earliest", **login}
        seen = tmp_path / "seen"
        seen.mkdir()
        with ConsumerPool(
            "jobs", "workers", Recorder, handler_args=(str(seen),), size=2, bootstrap_servers=servers, **options
        ) as pool:
            wait_until(lambda: pool.handled() >= 100, what="records that were handled")
    with up(data, "--secure") as again:
        assert password(data / "client.properties") == before
        login_again = ["--bootstrap-server", again.servers, "--command-config", str(data / "client.properties")]
        assert "jobs" in coterie("topics", "list", *login_again).stdout
        again.end(signal.SIGTERM)
