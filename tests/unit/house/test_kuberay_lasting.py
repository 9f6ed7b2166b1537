"""kuberay-lasting.yaml meets the demands of KubeRay's operator (1.7) on a cluster with the embedded store, and ours on
a disk.

The operator's schema is not here: the facts below were read in it, and in its further checks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from placement.nodes import NODE_LABEL

EXAMPLES = Path(__file__).parents[3] / "examples"
MANAGED = {"RAY_gcs_storage", "RAY_gcs_storage_path", "RAY_REDIS_ADDRESS"}
"""Variables of the head that the operator sets itself, and refuses from others."""
MOUNTED = "/data/gcs"
"""The path at which it mounts the store."""
GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "labels", "rayStartParams", "template"}
"""Of a worker group's fields in its schema, those in use."""


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((EXAMPLES / name).read_text()))


def one(kind: str) -> dict[str, Any]:
    (found,) = (each for each in documents("kuberay-lasting.yaml") if each["kind"] == kind)
    return found


def head() -> dict[str, Any]:
    group: dict[str, Any] = one("RayCluster")["spec"]["headGroupSpec"]
    return group


def workers() -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = one("RayCluster")["spec"]["workerGroupSpecs"]
    return groups


def container(group: dict[str, Any]) -> dict[str, Any]:
    (found,) = group["template"]["spec"]["containers"]
    return dict(found)


def claims(group: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The mount path and the name of each claim of a pod."""
    volumes = {each["name"]: each for each in group["template"]["spec"]["volumes"]}
    for mount in container(group)["volumeMounts"]:
        if claim := volumes[mount["name"]].get("persistentVolumeClaim"):
            yield mount["mountPath"], claim["claimName"]


def start() -> dict[str, str]:
    """The options of the script that starts the brokers."""
    words = shlex.split(one("RayJob")["spec"]["entrypoint"].partition("&&")[0])[2:]
    return dict(zip(words[::2], words[1::2], strict=True))


@pytest.mark.conformance("N-B-02")
def test_the_heads_state_is_kept_and_the_operator_alone_says_where() -> None:
    options = one("RayCluster")["spec"]["gcsFaultToleranceOptions"]
    assert options == {"backend": "rocksdb", "storage": {"size": "1Gi", "deletionPolicy": "Retain"}}
    assert not {each["name"] for each in container(head())["env"]} & MANAGED
    assert not [each for each in container(head())["volumeMounts"] if each["mountPath"] == MOUNTED]
    text = (EXAMPLES / "kuberay-lasting.yaml").read_text()
    assert "--feature-gates=GCSFaultToleranceEmbeddedStorage=true" in text


@pytest.mark.conformance("N-B-02")
def test_every_pod_waits_ten_minutes_for_the_head() -> None:
    for group in (head(), *workers()):
        variables = {each["name"]: each["value"] for each in container(group)["env"]}
        assert variables["RAY_gcs_rpc_server_reconnect_timeout_s"] == "600"


@pytest.mark.conformance("N-B-03")
def test_no_pod_with_a_broker_comes_or_goes_by_itself() -> None:
    for group in workers():
        assert set(group) == GROUP
        assert [group[each] for each in ("replicas", "minReplicas", "maxReplicas")] == [1, 1, 1]
    assert "enableInTreeAutoscaling" not in one("RayCluster")["spec"]


def test_each_pod_has_a_label_and_a_disk_of_its_own_that_the_next_one_has_too() -> None:
    data = start()["--data-dir"]
    groups = [head(), *workers()]
    assert all("labels" not in group["rayStartParams"] for group in groups), "the operator takes them from the group"
    labels = [group["labels"][NODE_LABEL] for group in groups]
    disks = [dict(claims(group))[data] for group in groups]
    assert disks == [f"coterie-{label}" for label in labels]
    assert len(set(disks)) == len(groups)
    made = [each["metadata"]["name"] for each in documents("kuberay-lasting.yaml") if "Claim" in each["kind"]]
    assert set(made) == {claim for group in groups for _, claim in claims(group)}
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", each) for each in (*labels, *made))


@pytest.mark.conformance("N-B-02")
def test_there_is_a_broker_on_every_pod_but_the_head_and_clients_find_the_first() -> None:
    options, groups = start(), workers()
    assert [int(options["--nodes"]), int(options["--brokers"])] == [1 + len(groups), len(groups)]
    labels = [group["labels"][NODE_LABEL] for group in groups]
    assert labels == sorted(labels), "the order in which brokers get their ids"
    ports = [port["containerPort"] for group in groups for port in container(group)["ports"]]
    assert ports == [int(options["--port"]) + at for at in range(len(groups))]
    service = one("Service")["spec"]
    assert service["selector"] == {"ray.io/cluster": "coterie", NODE_LABEL: labels[0]}
    assert service["ports"] == [{"name": "kafka", "port": ports[0], "targetPort": "kafka"}]
    assert not [each for each in container(head())["ports"] if each["name"] == "kafka"]


@pytest.mark.parametrize("what", ["authOptions", "rayVersion"])
def test_the_rest_is_as_in_the_manifest_whose_pods_do_not_last(what: str) -> None:
    (other,) = (each for each in documents("kuberay.yaml") if each["kind"] == "RayCluster")
    assert one("RayCluster")["spec"][what] == other["spec"][what]
    image = other["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"]
    assert {container(group)["image"] for group in (head(), *workers())} == {image}


def test_every_option_of_the_start_exists() -> None:
    known = re.findall(r'add_argument\(\s*"(--[a-z-]+)"', (EXAMPLES / "start_on_ray.py").read_text())
    assert set(start()) <= set(known)
