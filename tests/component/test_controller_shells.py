"""Controllers that earlier builds have started: they begin again by their own methods, on the modules of today."""

from __future__ import annotations

import asyncio
from pathlib import Path

from actors.controller import actor, new_secret
from actors.controller.metadata_log import MetadataLog
from actors.controller.server import ControllerServer
from actors.links.secret import Secrets, read_secrets
from actors.settings import BrokerConfig
from tests.support.controller_world import Launcher
from tests.support.runtime_helpers import SECRET, FakeBroker, until


async def test_the_controller_serves_brokers_and_forgets_a_secret_as_earlier_builds_ask_it_to(tmp_path: Path) -> None:
    log, launcher, loop = MetadataLog(tmp_path / "metadata.log"), Launcher(), asyncio.get_running_loop()
    server = ControllerServer(log, BrokerConfig.from_mapping({}), SECRET, launcher, loop, restarted=True)
    server.publisher.commit([])
    port = await server.listen("127.0.0.1")
    broker = await FakeBroker(0).register(port)
    assert server.metadata.brokers[0].alive
    assert server.secrets == SECRET
    broker.hang_up()
    await until(lambda: not server.brokers)
    stranger = await FakeBroker(1).connect(port)
    secret = tmp_path / "secret"
    secret.write_text((b"another secret" * 3)[:32].hex())
    await new_secret.forget(server, secret)
    assert server.secrets == read_secrets(secret) != Secrets(SECRET.current)
    await stranger.lost.wait()
    server.close()


def test_the_line_of_a_home_is_read_where_earlier_builds_look_for_that() -> None:
    assert actor._home("10.0.0.1", 0, "disk-1", "more").name == "disk-1"
