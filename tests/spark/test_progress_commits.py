"""Spark's own streaming queries as groups: state and watermarks, restarts, a death, and groups that others are in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from actors.client import Admin, Consumer, TopicPartition
from spark_bridge import commit_progress, lag
from spark_bridge.java import java_environment
from spark_bridge.progress import GroupOffsets
from spark_bridge.publishing import Publisher
from tests.compat.apache_kafka import spark_connector_settings
from tests.spark.history import read_history
from tests.spark.streams import PARTITIONS, committed, ends, make_topic, send
from tests.spark.support import FAST_JVM, ROOT, assert_gone, descendants, wait_until
from tests.spark.windowed import windowed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(autouse=True)
def connector(spark: SparkSession) -> None:
    if "sql-kafka" not in spark.conf.get("spark.jars", ""):
        pytest.skip("Spark's own connector to Kafka cannot be had here")


@pytest.fixture
def group(topic_name: str) -> str:
    return f"g-{topic_name}"


def await_all(servers: str, topic: str) -> None:
    wait_until(lambda: committed(servers, topic) == ends(servers, topic), what="everything committed")


def history(servers: str, group: str) -> list[list[int]]:
    """The commits of each partition in order."""
    commits, _ = read_history(servers, group)
    assert len(commits) == PARTITIONS
    return list(commits.values())


@pytest.mark.parametrize("each_servers", ["coterie", "kafka"], indirect=True)
def test_the_lag_of_a_windowed_query_goes_to_zero_in_the_group(
    spark: SparkSession, each_servers: str, topic_name: str, group: str, tmp_path: Path
) -> None:
    make_topic(each_servers, topic_name)
    send(each_servers, topic_name, range(200))
    with (
        commit_progress(spark, group, each_servers) as commits,
        windowed(spark, each_servers, topic_name, tmp_path / "state", maxOffsetsPerTrigger=40) as query,
    ):
        await_all(each_servers, topic_name)
        send(each_servers, topic_name, range(200, 240))
        await_all(each_servers, topic_name)
    assert query.lastProgress is not None
    assert query.lastProgress["stateOperators"][0]["numRowsTotal"] > 0
    assert query.lastProgress["eventTime"]["watermark"] > "2000"
    assert commits.problems == []
    assert commits.committed == {group: {TopicPartition(topic_name, n): 60 for n in range(PARTITIONS)}}
    with Admin(bootstrap_servers=each_servers) as admin:
        (described,) = admin.describe_consumer_groups([group])
    assert (described.state, described.members) == ("Empty", ())
    assert {row["lag"] for row in lag(spark, [group], each_servers).collect()} == {0}
    for offsets in history(each_servers, group):
        assert offsets == sorted(set(offsets)), "each commit is one of a batch, and none is repeated"
        assert len(offsets) >= 2


def test_a_query_goes_on_at_its_checkpoint_and_the_loss_of_one_is_shown(
    spark: SparkSession, servers: str, topic_name: str, group: str, tmp_path: Path
) -> None:
    make_topic(servers, topic_name)
    send(servers, topic_name, range(200))
    with commit_progress(spark, group, servers), windowed(spark, servers, topic_name, tmp_path / "state"):
        await_all(servers, topic_name)
    send(servers, topic_name, range(200, 400))
    assert {row["lag"] for row in lag(spark, [group], servers).collect()} == {50}
    with commit_progress(spark, group, servers) as commits:
        with windowed(spark, servers, topic_name, tmp_path / "state") as again:
            await_all(servers, topic_name)
        (first, *_) = (each for each in again.recentProgress if each["numInputRows"])
        assert set(first["sources"][0]["startOffset"][topic_name].values()) == {50}
        assert all(offsets == sorted(offsets) for offsets in history(servers, group))

        with windowed(spark, servers, topic_name, tmp_path / "new", maxOffsetsPerTrigger=40):
            wait_until(lambda: min(committed(servers, topic_name).values()) < 100, what="the lag of a new beginning")
            await_all(servers, topic_name)
        assert commits.problems == []
    for offsets in history(servers, group):
        (back,) = (n for n, (before, after) in enumerate(pairwise(offsets)) if after < before)
        assert offsets[back] == 100


def test_what_a_killed_program_has_committed_is_no_more_than_its_checkpoint_has(
    spark: SparkSession, servers: str, topic_name: str, group: str, tmp_path: Path
) -> None:
    make_topic(servers, topic_name)
    send(servers, topic_name, range(2000))
    with program(servers, topic_name, group, str(tmp_path / "state")) as family:
        wait_until(lambda: sum(committed(servers, topic_name).values()) >= 100, what="some batches")
        for process in family():
            process.kill()
    before = committed(servers, topic_name)
    assert before != ends(servers, topic_name)
    with (
        commit_progress(spark, group, servers),
        windowed(spark, servers, topic_name, tmp_path / "state", maxOffsetsPerTrigger=500) as query,
    ):
        await_all(servers, topic_name)
    (first, *_) = (each for each in query.recentProgress if each["numInputRows"])
    begun = {int(n): at for n, at in first["sources"][0]["startOffset"][topic_name].items()}
    assert all(begun[n] >= at for n, at in before.items())
    assert all(offsets == sorted(offsets) for offsets in history(servers, group))


@contextlib.contextmanager
def program(*arguments: str) -> Iterator[Callable[[], list[psutil.Process]]]:
    """`scenarios.windowed_job` in a process of its own; gives a function for that one and its JVM."""
    call = f"from tests.spark import scenarios; scenarios.windowed_job(*{arguments!r}, {spark_connector_settings()!r})"
    environment = {**os.environ, **java_environment(), "JDK_JAVA_OPTIONS": FAST_JVM}
    with open(os.devnull, "wb") as nothing:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", call], cwd=ROOT, env=environment, stdout=nothing, stderr=nothing
        )

    def family() -> list[psutil.Process]:
        return [psutil.Process(process.pid), *descendants(process.pid)]

    seen = []
    try:
        yield family
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            seen = family()
        for each in seen:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait(30)
        assert_gone(seen)


def test_of_a_group_with_members_it_is_said_and_the_query_goes_on(
    spark: SparkSession, servers: str, topic_name: str, group: str, tmp_path: Path
) -> None:
    make_topic(servers, topic_name)
    send(servers, topic_name, range(40))
    with (
        commit_progress(spark, group, servers) as commits,
        windowed(spark, servers, topic_name, tmp_path / "state") as query,
    ):
        await_all(servers, topic_name)
        settings = {"bootstrap_servers": servers, "enable_auto_commit": False}
        with Consumer(topic_name, group_id=group, **settings) as member:
            wait_until(lambda: member.poll(100) or member.assignment(), what="its share")
            send(servers, topic_name, range(40, 80))
            (problem,) = wait_until(lambda: commits.problems, what="the refusal")
            assert f"group {group!r}" in problem
            assert "it has members" in problem
            assert commits.committed[group] == {TopicPartition(topic_name, n): 10 for n in range(PARTITIONS)}
        send(servers, topic_name, range(80, 120))
        await_all(servers, topic_name)
        assert query.isActive
        assert commits.problems == []


def test_queries_that_run_already_are_groups_of_their_names_at_once(
    spark: SparkSession, servers: str, topic_name: str, group: str, tmp_path: Path
) -> None:
    make_topic(servers, topic_name)
    send(servers, topic_name, range(40))
    with (
        windowed(spark, servers, topic_name, tmp_path / "one", name=topic_name) as one,
        windowed(spark, servers, topic_name, tmp_path / "two", name=f"{topic_name}-2") as two,
    ):
        for query in (one, two):
            query.processAllAvailable()
        with commit_progress(spark, "g-{query}", servers, queries=topic_name) as commits:
            await_all(servers, topic_name)
            send(servers, topic_name, range(40, 80))
            for query in (one, two):
                query.processAllAvailable()
            await_all(servers, topic_name)
            assert list(commits.committed) == [group], "the other query was not asked for"
        assert one.isActive


def test_a_topic_that_brokers_do_not_have_is_named(spark: SparkSession, servers: str, topic_name: str) -> None:
    make_topic(servers, topic_name)
    publisher = Publisher(lambda: Admin(bootstrap_servers=servers))
    there, gone = TopicPartition(topic_name, 0), TopicPartition(f"{topic_name}-gone", 0)
    publisher.publish(GroupOffsets(f"g-{topic_name}", {there: 3, gone: 5}, live=False))
    (problem,) = wait_until(publisher.problems, what="the refusal")
    assert f"these brokers have no partition {topic_name}-gone-0" in problem
    assert publisher.close(30)
    assert committed(servers, topic_name) == {0: 3}
