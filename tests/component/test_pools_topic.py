"""The topic of deployed pools at a real broker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from actors.client import Admin, Producer
from actors.client.admin.types import NewTopic
from actors.members.deployment import supervisor_actor
from actors.members.deployment.deployed import DeployedPool
from actors.members.deployment.home import Home
from actors.members.deployment.names import TOPIC
from actors.members.deployment.pools_topic import PoolsTopic
from actors.members.deployment.records import Size, encode, keys_of
from actors.members.pools.plan import PoolError
from tests.support.one_broker import World, world
from tests.support.pools_topic import FIRST

T = TypeVar("T")


async def at(broker: World, work: Callable[[PoolsTopic], T]) -> T:
    """Do a program's work on the topic in a thread, beside the broker's loop."""
    servers = f"127.0.0.1:{broker.server.socket_server.ports['PLAINTEXT']}"
    return await asyncio.to_thread(lambda: work(PoolsTopic(servers)))


async def test_what_is_written_is_read_and_followed(tmp_path: Path) -> None:
    def work(topic: PoolsTopic) -> None:
        assert topic.read().names() == [], "nobody has deployed anything"
        topic.create()
        topic.create()  # by two programs at a time
        topic.write("p", FIRST)
        with topic.follow() as following:
            assert following.book.names() == ["p"]
            last = topic.write("p", Size("one", 7), Size("one", 8))
            while (found := following.book.pool("p")) is None or found.size != 8:
                following.poll(1000)
            assert last == 2
        topic.remove(keys_of("p"))
        assert topic.read().pool("p") is None

    async with world(tmp_path) as broker:
        await at(broker, work)
        assert broker.metadata.topics[TOPIC].configs["cleanup.policy"] == "compact"
        assert len(broker.metadata.topics[TOPIC].partitions) == 1


async def test_a_record_that_cannot_be_read_keeps_no_other_pool_from_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[str] = []
    monkeypatch.setattr(supervisor_actor, "is_there", lambda *_: False)
    monkeypatch.setattr(supervisor_actor, "start", lambda spec: started.append(spec.name))
    monkeypatch.setattr(Home, "is_here", lambda _: False)

    def work(topic: PoolsTopic, servers: str) -> None:
        topic.create()
        topic.write("p", replace(FIRST, bootstrap_servers=servers))
        with Producer(bootstrap_servers=servers) as producer:
            producer.send(TOPIC, b"of a later version", key=b"a", partition=0).get()
        assert topic.read().names() == ["a", "p"]
        assert [found.name for found in DeployedPool.deployed(servers)] == ["p"]
        with pytest.raises(PoolError, match=r"not connected to Ray, .*: ray\.init"):
            DeployedPool.revive(servers)
        with monkeypatch.context() as patched:
            patched.setattr(supervisor_actor, "connected", lambda: True)
            assert DeployedPool.revive(servers) == started == ["p"]
        with pytest.raises(PoolError, match="got 0; `pause` has all members leave"):
            DeployedPool("p", servers).scale(0)
        unread = DeployedPool("a", servers)
        with pytest.raises(PoolError, match="of another version of Coterie"):
            unread.describe()
        unread.stop()
        assert topic.read().names() == ["p"]
        with pytest.raises(PoolError, match="there is no pool called 'a'"):
            unread.stop()

    async with world(tmp_path) as broker:
        servers = f"127.0.0.1:{broker.server.socket_server.ports['PLAINTEXT']}"
        await at(broker, lambda topic: work(topic, servers))


async def test_nonsense_that_somebody_writes_hides_no_pool_and_sizes_none(tmp_path: Path) -> None:
    """One record made the list of pools fail for all, and a size of 10^9 was taken."""
    written = {
        b"p/size": Size("one", 10**9),
        b"q": Size("one", 1),
        b"r": replace(FIRST, autoscale={"unheard_of": 1.0}),
        b"s": replace(FIRST, deployed_at_ms=10**18),
        b"t": replace(FIRST, settings={"ssl_cafile": "no json"}),
        b"\x1b[2J": FIRST,
    }

    def work(topic: PoolsTopic, servers: str) -> None:
        topic.create()
        topic.write("p", FIRST)
        with Producer(bootstrap_servers=servers) as producer:
            for key, record in written.items():
                producer.send(TOPIC, encode(record), key=key, partition=0).get()
        (found,) = DeployedPool.deployed(servers)
        assert (found.name, found.size) == ("p", FIRST.size)
        with pytest.raises(PoolError, match="a size must be from 1 to 10000"):
            DeployedPool("p", servers).scale(10**9)
        for name in "qrst":
            DeployedPool(name, servers).stop()

    async with world(tmp_path) as broker:
        servers = f"127.0.0.1:{broker.server.socket_server.ports['PLAINTEXT']}"
        await at(broker, lambda topic: work(topic, servers))


async def test_a_handler_that_is_too_large_is_told_the_setting_and_the_sizes(tmp_path: Path) -> None:
    def work(topic: PoolsTopic) -> None:
        topic.create()
        too_large = replace(FIRST, body=os.urandom(2 << 20))
        with pytest.raises(PoolError, match=rf"take 2097\d+ bytes.* max.message.bytes=\d+ of topic {TOPIC}"):
            topic.write("p", too_large)
        assert topic.read().names() == []

    async with world(tmp_path) as broker:
        await at(broker, work)


async def test_a_topic_that_would_forget_pools_is_refused(tmp_path: Path) -> None:
    def work(topic: PoolsTopic) -> None:
        with pytest.raises(PoolError, match=r"must have cleanup\.policy=compact, and has delete"):
            topic.create()

    async with world(tmp_path) as broker:
        servers = f"127.0.0.1:{broker.server.socket_server.ports['PLAINTEXT']}"

        def make() -> None:
            with Admin(bootstrap_servers=servers) as admin:
                admin.create_topics([NewTopic(TOPIC, 1)])

        await asyncio.to_thread(make)
        await at(broker, work)
