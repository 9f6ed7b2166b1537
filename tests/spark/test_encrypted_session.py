"""Spark's own connections, encrypted: the session of all tests encrypts them."""

from __future__ import annotations

import json
import socket
import stat
import struct
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import psutil
import pytest
import ray

from tests.ray.support import words_of_family
from tests.spark.support import jvms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REQUEST = 3  # Spark's number for a call
_BIG = 2 << 20  # more than Spark sends with a task's status: it is fetched as a block


def secret_of(spark: SparkSession) -> str:
    assert spark._jvm is not None
    return str(spark._jvm.org.apache.spark.SparkEnv.get().securityManager().getSecretKey())


def file_of(spark: SparkSession) -> Path:
    options = str(spark.conf.get("spark.executor.extraJavaOptions")).split()
    (path,) = (each.partition("=")[2] for each in options if each.startswith("-Dhadoop.token.files="))
    return Path(path)


@pytest.mark.conformance("XE-52")
def test_blocks_travel_in_both_directions(spark: SparkSession) -> None:
    table = dict.fromkeys(range(1000), "x" * 100)
    shared = spark.sparkContext.broadcast(table)
    assert spark.sparkContext.range(0, 4, 1, 2).map(lambda number: len(shared.value)).collect() == [1000] * 4
    rows = spark.range(2, numPartitions=2).selectExpr(f"repeat('x', {_BIG}) as text").collect()
    assert [len(row.text) for row in rows] == [_BIG] * 2
    assert spark.range(1000).repartition(4).selectExpr("id % 7 as rest").groupBy("rest").count().count() == 7


@pytest.mark.conformance("XE-52")
def test_who_does_not_know_the_secret_is_hung_up_on(spark: SparkSession) -> None:
    context = spark.sparkContext
    blocks = context._jsc.sc().getExecutorMemoryStatus().keys().mkString(" ").split()
    driver = f"{spark.conf.get('spark.driver.host')}:{spark.conf.get('spark.driver.port')}"
    assert len(blocks) == 3, "the driver's and those of two executors"
    for address in (driver, *blocks):
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as stranger:
            body = b"\x00 blocks, please"
            call = struct.pack(">bqi", _REQUEST, 1, len(body)) + body
            stranger.sendall(struct.pack(">q", 8 + len(call)) + call)
            while stranger.recv(1 << 16):  # the refusal; a Spark without a secret answers and waits for more
                pass


@pytest.mark.conformance("XE-52", "XG-14")
def test_the_secret_stands_in_a_file_and_nowhere_else(spark: SparkSession) -> None:
    secret, path = secret_of(spark), file_of(spark)
    assert len(secret) == 64
    assert secret in path.read_bytes().decode(errors="replace")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    seen = [json.dumps(spark.sparkContext.getConf().getAll()), *words_of_family()]
    assert len(jvms()) >= 4, "all of which had to read it"
    assert not [each[:200] for each in seen if secret in each]
    session = Path(ray._private.worker.global_worker.node.get_session_dir_path())
    logs = [spark.conf.get("spark.coterie.driver.log"), *(p for p in session.rglob("*") if p.is_file())]
    assert len(logs) > 10
    assert not [log for log in logs if secret.encode() in Path(log).read_bytes()]


def listens_at(jvm: psutil.Process) -> set[tuple[str, int]]:
    """The hosts and ports at which a JVM listens; IPv4 addresses without the prefix of their IPv6 form."""
    found = (each.laddr for each in jvm.net_connections("inet") if each.status == psutil.CONN_LISTEN)
    return {(address.ip.removeprefix("::ffff:"), address.port) for address in found}


@pytest.mark.conformance("XE-53")
def test_pages_that_are_asked_for_are_for_this_machine_alone(spark: SparkSession) -> None:
    port = urlsplit(str(spark.sparkContext.uiWebUrl)).port
    assert {host for jvm in jvms() for host, bound in listens_at(jvm) if bound == port} == {"127.0.0.1"}


@pytest.mark.conformance("XE-54")
def test_raydps_gateway_is_for_this_machine_alone(spark: SparkSession) -> None:
    (gateway,) = (jvm for jvm in jvms() if "AppMasterEntryPoint" in " ".join(jvm.cmdline()))
    hosts = [host for host, _ in listens_at(gateway)]
    assert sorted(hosts) == ["127.0.0.1", "::"], "its own port, and that which every process of Ray has"
