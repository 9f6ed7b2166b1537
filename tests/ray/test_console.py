"""The console over a real cluster: a pool's group, and what the page of a group says after a member was killed."""

from __future__ import annotations

import asyncio
import html
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from actors.cli.console import ClusterSource
from actors.cluster import Cluster
from actors.console.app import Options
from actors.console.brokers import BrokerDesk
from actors.console.entrance import Open
from actors.console.kafka import KafkaSource
from actors.console.sessions import Visitor
from actors.console.source import Shared
from actors.links.views import GetGroup
from actors.members.pool import ConsumerPool
from actors.runtime.environment import REAL
from tests.compat.prometheus import console_url
from tests.ray.handlers import Recorder
from tests.ray.support import produce, topic, wait_until
from tests.support.served_console import served_console

MEMBER = """
import sys
from coterie import Consumer

servers, topic, group = sys.argv[1:]
settings = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}
with Consumer(topic, group_id=group, client_id=group, bootstrap_servers=servers, **settings) as consumer:
    while True:
        consumer.poll(timeout_ms=500)
"""


def read(address: str) -> str:
    """The text of a page, without its markup; empty if the page cannot be shown yet."""
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError:
        return ""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def says(address: str, pattern: str) -> str:
    """The text of a page, once it matches the pattern."""

    def found() -> str:
        text = read(address)
        return text if re.search(pattern, text) else ""

    return wait_until(found, what=f"{pattern} at {address}")


@contextmanager
def member(servers: str, topic_name: str, group: str) -> Iterator[subprocess.Popen[bytes]]:
    """A consumer in a process of its own, which a kill ends as it does any."""
    process = subprocess.Popen([sys.executable, "-c", MEMBER, servers, topic_name, group])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_the_page_of_a_group_says_who_was_lost_and_how_long_it_took(shared: Cluster, name: str, tmp_path: Path) -> None:
    servers, pooled = shared.bootstrap_servers, f"{name}-pool"
    topic(servers, name, 6)
    produce(servers, name, [b"v%d" % i for i in range(60)])
    desk = BrokerDesk({"bootstrap_servers": servers}, REAL.clock)
    visitor = Visitor(None, Shared(ClusterSource(shared), REAL.clock), desk)
    with (
        member(servers, name, name) as lost,
        member(servers, name, name),
        ConsumerPool(name, pooled, Recorder, 2, bootstrap_servers=servers, handler_args=(str(tmp_path),)),
        served_console(Open(visitor), Options()) as address,
    ):
        page = f"{address}group?id={quote(name)}"
        says(page, "Members 2 ")
        lost.kill()
        text = says(page, "\u22121 expelled")
        assert re.search(r"took [\d.]+\s*(ms|s|min) .*\u22121 expelled", text)
        assert re.search(r"join [\d.]+\s*(ms|s)", text)
        says(page, "Members 1 ")
        assert "Each is an actor of a ConsumerPool." in says(f"{address}group?id={quote(pooled)}", "Members 2 ")
        assert len(re.findall(r"Broker \d [\d.]+:\d+ · pid \d+", read(address))) == 3
        assert re.search(r"\bv\d+\b", read(f"{address}records?name={quote(name)}&partition=0"))
        assert name in says(f"{console_url(Path(shared.status()['data_dir']))}groups", f"{pooled}.*pool")
        found = asyncio.run(KafkaSource(desk.admin, REAL.clock).view(GetGroup(name)))  # by Kafka's own requests
        assert found.row is not None
        assert (found.row.members, found.row.state, len(found.partitions)) == (1, "Stable", 6)
