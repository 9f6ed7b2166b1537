"""The console over a real cluster: a pool's group, and what its page says after a member was killed."""

from __future__ import annotations

import html
import os
import re
import signal
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

from actors.cli.console import ClusterSource
from actors.cluster import Cluster
from actors.console.app import Options
from actors.console.brokers import BrokerDesk
from actors.console.entrance import Open
from actors.console.sessions import Visitor
from actors.console.source import Shared
from actors.members.pool import ConsumerPool
from actors.runtime.environment import REAL
from tests.ray.handlers import Recorder
from tests.ray.support import produce, topic, wait_until
from tests.support.served_console import served_console


def read(address: str) -> str:
    """What a page says, without its markup. What cannot be shown yet is nothing."""
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            text = answer.read().decode()
    except urllib.error.HTTPError:
        return ""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", text)).split())


def with_a_loss(text: str) -> str:
    """The text, if it says of a rebalance that somebody is gone."""
    return text if re.search("\u22121 (left|expelled)", text) else ""


def test_the_page_of_a_group_says_who_was_lost_and_how_long_it_took(shared: Cluster, name: str, tmp_path: Path) -> None:
    servers = shared.bootstrap_servers
    topic(servers, name, 6)
    produce(servers, name, [b"v%d" % i for i in range(60)])
    visitor = Visitor(
        None, Shared(ClusterSource(shared), REAL.clock), BrokerDesk({"bootstrap_servers": servers}, REAL.clock)
    )
    with (
        ConsumerPool(name, name, Recorder, 3, bootstrap_servers=servers, handler_args=(str(tmp_path),)) as pool,
        served_console(Open(visitor), Options()) as address,
    ):
        page = f"{address}group?id={quote(name)}"
        pool.wait(until=lambda: pool.handled() >= 60, timeout_s=150)
        wait_until(lambda: all(str(each.pid) in read(page) for each in pool.status()), what="all members on the page")
        assert "Each is an actor of a ConsumerPool." in read(page)
        assert len(re.findall(r"Broker \d 127\.0\.0\.1", read(address))) == 3
        lost = pool.status()[0].pid
        assert lost is not None
        os.kill(lost, signal.SIGKILL)
        wait_until(lambda: {each.pid for each in pool.status()}.isdisjoint({lost, None}), what="a successor")
        text = wait_until(
            lambda: found if re.search("\u22121 (left|expelled)", found := read(page)) else "",
            what="the loss on the page",
        )
        assert re.search(r"took [\d.]+\s*(ms|s) .*\u22121 (left|expelled)", text)
        assert "v5" in read(f"{address}records?name={quote(name)}&partition=0&count=200")
