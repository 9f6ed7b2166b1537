"""The text of a port that cannot be listened at: the port is at fault, or the host."""

from __future__ import annotations

import asyncio

import pytest

from actors.broker.entrance.listening import PortTakenError, listen


@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.invalid"])  # RFC 5737, RFC 6761: nobody has these
async def test_an_address_of_another_machine_was_told_as_a_port_that_is_taken(host: str) -> None:
    with pytest.raises(PortTakenError) as raised:
        await listen(asyncio.Protocol, host, 9092, "listeners", backlog=1)
    assert f"{host} is no address of this machine; mend the host, which --host" in str(raised.value)
    assert "choose another port" not in str(raised.value)
