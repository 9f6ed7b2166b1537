"""Processes of builds that have no version of our protocols in common: both say so, and say which builds they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actors.broker.contact import Contact
from actors.broker.spec import StartError
from actors.links.connection import dial
from actors.links.control import Answer, Image
from actors.links.operations import MetadataVersionRaised
from actors.links.versions import OWN, UNTOLD, Spoken
from actors.runtime.environment import REAL
from actors.settings import LinkSecurity
from actors.wire.errors import ErrorCode
from tests.support.controller_world import controller, older_log
from tests.support.link_ends import End, accepting
from tests.support.runtime_helpers import SECRET, FakeBroker, until

OTHER = Spoken(1000, 1001, "99")


@pytest.mark.conformance("N-E-01")
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


@pytest.mark.conformance("N-E-01")
async def test_a_controller_hangs_up_on_a_broker_of_another_build_and_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    older_log(tmp_path)
    async with controller(tmp_path) as c:
        end = End("broker", spoken=OTHER)
        await dial(lambda: end.protocol, "127.0.0.1", c.port, SECRET, tls=None)
        await end.lost.wait()
        assert end.protocol.refused.endswith(f"this broker {OTHER}, and the controller {OWN}")
        assert f"this controller {OWN}, and the broker {OTHER}" in caplog.text
        assert c.metadata.brokers == {}


@pytest.mark.conformance("N-E-04")
async def test_the_metadata_has_a_newer_format_when_all_brokers_know_it_and_then_older_ones_are_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    older_log(tmp_path)
    async with controller(tmp_path) as c:
        new = await FakeBroker(0).register(c.port)
        old = await FakeBroker(1, spoken=UNTOLD).register(c.port)
        refused = await new.call("raise_metadata_version", 1, level=2)
        assert refused["result"]["error_code"] == ErrorCode.INVALID_UPDATE_VERSION
        assert refused["result"]["error_message"].startswith("broker 1 (an old build, which does not say so) speaks")
        old.hang_up()
        await FakeBroker(1).register(c.port)
        raised = await new.call("raise_metadata_version", 2, level=2)
        assert raised == {"result": {"error_code": 0, "error_message": None}}
        assert new.of(Image)[-1].metadata.level == 2
    async with controller(tmp_path) as c:  # it is in the log
        late = await FakeBroker(1, spoken=UNTOLD).connect(c.port)
        await late.lost.wait()
        assert not late.ready.is_set()
        assert "and the broker (an old build, which does not say so) speaks version 0" in caplog.text
        assert (await FakeBroker(0).register(c.port)).of(Image)[-1].metadata.level == 2


async def test_an_answer_that_the_asker_does_not_know_is_a_failure(tmp_path: Path) -> None:
    """It was asked by an operation that it knows; of our own results none is newer than its question."""
    older_log(tmp_path)
    async with controller(tmp_path) as c:
        old = await FakeBroker(0, spoken=UNTOLD).register(c.port)
        (session,) = c.server.brokers.values()
        session.protocol.send(Answer(7, MetadataVersionRaised(0, None)))
        error = "MetadataVersionRaised is not in version 0 of the control link"
        assert (await until(lambda: old.answer(7))) == {"error": error}
        assert not old.lost.is_set()
