"""`coterie up --secure` as a user has it: one flag, a file to log in by, and strangers who get nowhere."""

from __future__ import annotations

import json
import signal
import stat
from pathlib import Path

import confluent_kafka
import psutil
import pytest
from confluent_kafka.admin import AdminClient

from coterie import Cluster, ConsumerPool, Producer
from tests.compat.peers import UnavailableError
from tests.compat.remote import CONFIGS, TOOLS, run_tools, start_remote
from tests.ray.handlers import Recorder
from tests.ray.support import Up, coterie, descendants, up, wait_until


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> object:
    with up(tmp_path_factory.mktemp("secure") / "data", "--secure", brokers=3) as cluster:
        yield cluster


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
    assert refused.text == "Processed a total of 0 messages\n"
    assert "principal=User:jay, host=*, operation=READ, permissionType=ALLOW" in listed.text


def test_no_secret_stands_in_arguments_environments_or_logs(running: Up) -> None:
    data = data_of(running)
    hidden = [password(data / "client.properties"), (data / "secret").read_text().strip()]
    for process in descendants(running.process.pid):
        try:
            seen = " ".join([*process.cmdline(), *process.environ().values()])
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        assert not [each for each in hidden if each in seen], process
    logs = [path for path in (data / "logs").rglob("*") if path.is_file()]
    assert logs
    for path in logs:
        text = path.read_text(errors="replace")
        assert not [each for each in hidden if each in text], path


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
