"""Processes of builds that have no version of our protocols in common: both say so, and say which builds they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.broker.registration import Contact
from actors.broker.spec import StartError
from actors.links.connection import dial
from actors.links.versions import OWN, Spoken
from actors.runtime.environment import REAL
from actors.settings import LinkSecurity
from tests.support.controller_world import controller
from tests.support.link_ends import End, accepting
from tests.support.runtime_helpers import SECRET

OTHER = Spoken(1000, 1001, "99")


async def test_a_broker_does_not_start_at_a_controller_of_another_build_and_says_why() -> None:
    end = End("controller", spoken=OTHER)
    server, port = await accepting(end, security=LinkSecurity.PROOF)
    loop = asyncio.get_running_loop()
    contact = Contact(3, lambda: ("127.0.0.1", port, SECRET), loop, REAL.chance)
    build = OWN.build
    text = rf"broker 3: no version .*: this broker \(build {build}\) speaks .*, and the controller \(build 99\) speaks "
    with pytest.raises(StartError, match=text):
        await contact.join_first()
    await end.lost.wait()
    assert end.protocol.refused.endswith(f"this controller {OTHER}, and the broker {OWN}")
    server.close()


async def test_a_controller_hangs_up_on_a_broker_of_another_build_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with controller(tmp_path) as c:
        end = End("broker", spoken=OTHER)
        await dial(lambda: end.protocol, "127.0.0.1", c.port, SECRET, tls=None)
        await end.lost.wait()
        assert end.protocol.refused.endswith(f"this broker {OTHER}, and the controller {OWN}")
        assert f"this controller {OWN}, and the broker {OTHER}" in caplog.text
        assert c.metadata.brokers == {}
