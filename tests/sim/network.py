"""Sockets between simulated processes: ordered streams that are slow, stall, and break.

Bytes that were sent before an end arrive before the end is noticed, or not at all. A machine that is gone says nothing:
its peers find out when it is back, or never. A partition holds everything up; some connections do not survive that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.sim.engine import MS, Machine, Process, Simulation

Address = tuple[Any, Any]

_LOOK_US = 250 * MS
"""Bytes that wait for a partition's end are tried again after this time."""


class _Socket:
    """Enough of a socket to set options and to ask for the port."""

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address

    def setsockopt(self, *args: Any) -> None:
        """Nothing is tuned here."""


class Listener:
    """A listening socket. It stands in for asyncio's Server."""

    def __init__(self, network: Network, process: Process, factory: Callable[[], Any], address: Address) -> None:
        self._network = network
        self.process = process
        self.factory = factory
        self.address = address
        self.sockets = [_Socket(address)]

    def close(self) -> None:
        if self._network.listeners.get(self.address) is self:
            del self._network.listeners[self.address]


class Endpoint(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, network: Network, process: Process, address: Address, *, local: bool) -> None:
        super().__init__()
        self.network = network
        self.process = process
        self.address = address
        self.local = local
        self.peer: Endpoint
        self.protocol: Any = None
        self.open = True
        self.ended = False
        """The other end has closed, or gone."""
        self._inbox: list[bytes] = []
        self._scheduled = False
        self._paused = False
        self._lost = False
        process.endpoints[self] = None

    # -- for protocols

    def write(self, data: Any) -> None:
        if self.open and not self.ended and data:
            self.peer.arrive(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        if self.open:
            self.open = False
            self.process.endpoints.pop(self, None)
            self.peer.end(self.network.latency(self.local))
            self.process.loop.call_soon(self._tell_lost)

    def is_closing(self) -> bool:
        return not self.open

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        if self._inbox:
            self._schedule(0)
        elif self.ended:
            self.process.loop.call_soon(self._finish)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """The network takes everything."""

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "peername":
            return self.peer.address
        return _Socket(self.address) if name == "socket" else default

    def get_protocol(self) -> Any:
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    # -- for the network

    def begin(self, protocol: Any) -> None:
        """The connection is there; bytes that came before are read now."""
        self.protocol = protocol
        protocol.connection_made(self)
        if self._inbox and not self._scheduled:
            self._schedule(0)

    def arrive(self, data: bytes) -> None:
        """Bytes are on their way here; bytes that come before they are read are read with them."""
        self._inbox.append(data)
        if not self._scheduled:
            self._schedule(self.network.latency(self.local))

    def _schedule(self, delay_us: int) -> None:
        self._scheduled = True
        sim = self.network.sim
        sim.at(sim.now + delay_us, self.process, self._deliver)

    def _deliver(self) -> None:
        network = self.network
        if not self.local and (until := network.blocked_until(self, self.peer)):
            network.sim.at(min(until, network.sim.now + _LOOK_US), self.process, self._deliver)
            return
        self._scheduled = False
        if not self.open or self._paused or not self._inbox or self.protocol is None:
            return
        data = b"".join(self._inbox)
        self._inbox.clear()
        network.sim.note(data)
        # A read may end at any byte.
        if len(data) > 1 and network.sim.random.random() < 0.05:
            cut = network.sim.random.randrange(1, len(data))
            self._inbox.append(data[cut:])
            data = data[:cut]
            self._schedule(network.latency(self.local))
        self._read(data)

    def _read(self, data: bytes) -> None:
        protocol = self.protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(data)
            return
        while data and self.open:
            buffer = protocol.get_buffer(len(data))
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            protocol.buffer_updated(size)
            data = data[size:]

    def end(self, delay_us: int) -> None:
        """The other end is gone."""
        if not self.ended:
            self.ended = True
            sim = self.network.sim
            sim.at(sim.now + delay_us, self.process, self._finish)

    def _finish(self) -> None:
        if not self.open:
            return
        network = self.network
        if not self.local and (until := network.blocked_until(self, self.peer)):
            network.sim.at(min(until, network.sim.now + _LOOK_US), self.process, self._finish)
            return
        if self._inbox and not self._paused:
            if network.sim.random.random() < 0.5:
                self._deliver()
                if self.open:
                    network.sim.at(network.sim.now + 1, self.process, self._finish)
                return
            self._inbox.clear()  # a reset overtakes unread bytes
        self.open = False
        self.process.endpoints.pop(self, None)
        self._tell_lost()

    def _tell_lost(self) -> None:
        if not self._lost and self.protocol is not None:
            self._lost = True
            self.protocol.connection_lost(None)

    def process_died(self, silently: bool) -> None:
        """The kernel closes a dead process's connections; a machine that is gone closes none."""
        self.open = False
        if silently and not self.local:
            self.network.half_open.append(self)
        else:
            self.peer.end(self.network.latency(self.local))


class Network:
    """The listeners, and the pairs of machines that cannot reach each other, with the end of that."""

    def __init__(self, sim: Simulation) -> None:
        self.sim = sim
        self.listeners: dict[Address, Listener] = {}
        self.half_open: list[Endpoint] = []
        self.slow = False
        self.machines: list[Machine] = []
        self._blocked: dict[frozenset[str], int] = {}
        self._mute: dict[tuple[str, str], int] = {}
        self._next_port = 40_000

    def latency(self, local: bool) -> int:
        """Microseconds."""
        chance = self.sim.random.random()
        if local:
            return int(20 + chance * 200)
        if self.slow and chance < 0.02:
            return int(5 * MS + chance * 50 * 300 * MS)
        return int(100 + chance * chance * 3 * MS)

    # -- partitions

    def block(self, one: str, other: str, until_us: int) -> None:
        """Nothing passes between two machines until then."""
        pair = frozenset((one, other))
        self._blocked[pair] = max(until_us, self._blocked.get(pair, 0))
        self.sim.at(until_us, None, self._unblocked, pair)

    def _unblocked(self, pair: frozenset[str]) -> None:
        """Some connections were given up meanwhile."""
        if self._blocked.get(pair, 0) > self.sim.now or pair not in self._blocked:
            return
        for process in list(self.sim.processes.values()):
            if process.machine.host not in pair:
                continue
            for endpoint in list(process.endpoints):
                crosses = endpoint.peer.process.machine.host in pair and not endpoint.local
                if crosses and endpoint.open and self.sim.random.random() < 0.2:
                    self.break_off(endpoint)

    def mute(self, speaker: str, listener: str, until_us: int) -> None:
        """No bytes of `speaker` reach `listener` until then; in the other direction all arrive."""
        self._mute[(speaker, listener)] = max(until_us, self._mute.get((speaker, listener), 0))

    def heal(self) -> None:
        """All pairs can talk from now on."""
        self._blocked.clear()
        self._mute.clear()

    def blocked_until(self, to: Endpoint, speaker: Endpoint) -> int:
        """The time until which bytes of `speaker` are held up; 0 if they arrive."""
        if not self._blocked and not self._mute:
            return 0
        hosts = speaker.process.machine.host, to.process.machine.host
        until = max(self._mute.get(hosts, 0), self.blocked_until_hosts(*hosts))
        return until if until > self.sim.now else 0

    def blocked_until_hosts(self, one: str, other: str) -> int:
        """The time until which two machines cannot talk; 0 if they can."""
        until = self._blocked.get(frozenset((one, other)), 0)
        return until if until > self.sim.now else 0

    def break_off(self, endpoint: Endpoint) -> None:
        """A connection ends for both."""
        endpoint.end(self.latency(endpoint.local))
        endpoint.peer.end(self.latency(endpoint.local))

    def rebooted(self, host: str) -> None:
        """A machine that is back answers old connections with a reset."""
        gone = [endpoint for endpoint in self.half_open if endpoint.process.machine.host == host]
        self.half_open = [endpoint for endpoint in self.half_open if endpoint not in gone]
        for endpoint in gone:
            endpoint.peer.end(self.latency(False))

    # -- connections

    def listen(self, process: Process, factory: Callable[[], Any], address: Address) -> Listener:
        """Raises OSError if the address is taken."""
        host, port = address
        if port == 0:
            self._next_port += 1
            address = (host, self._next_port)
        taken = self.listeners.get(address)
        if taken is not None and taken.process.alive:
            raise OSError(98, f"{address} is in use")
        listener = Listener(self, process, factory, address)
        self.listeners[address] = listener
        process.on_kill.append(listener.close)
        return listener

    async def connect(self, process: Process, factory: Callable[[], Any], address: Address) -> tuple[Endpoint, Any]:
        """Raises ConnectionRefusedError when nobody listens; never returns while the machine does not answer."""
        local = address[0] == "unix"
        done: asyncio.Future[Endpoint] = process.loop.create_future()
        self.sim.after(self.latency(local), self._handshake, process, factory, address, done)
        endpoint = await done
        return endpoint, endpoint.protocol

    def _handshake(
        self, process: Process, factory: Callable[[], Any], address: Address, done: asyncio.Future[Endpoint]
    ) -> None:
        if not process.alive or done.done():
            return
        local = address[0] == "unix"
        host = process.machine.host if local else address[0]
        until = self.blocked_until_hosts(process.machine.host, host)
        machine_is_up = local or any(machine.host == host and machine.up for machine in self.machines)
        if until or not machine_is_up:
            self.sim.at(self.sim.now + _LOOK_US, None, self._handshake, process, factory, address, done)
            return
        listener = self.listeners.get(address)
        if listener is None or not listener.process.alive:
            self.sim.at(self.sim.now + 100, process, _refuse, done, address)
            return
        near = Endpoint(self, process, (process.machine.host, self._port()), local=local)
        far = Endpoint(self, listener.process, address, local=local)
        near.peer, far.peer = far, near
        delay_us = self.latency(local)
        self.sim.at(self.sim.now + delay_us // 2, listener.process, _accept, far, listener)
        self.sim.at(self.sim.now + delay_us, process, _connected, near, factory, done)

    def _port(self) -> int:
        self._next_port += 1
        return self._next_port


def _refuse(done: asyncio.Future[Endpoint], address: Address) -> None:
    if not done.done():
        done.set_exception(ConnectionRefusedError(111, f"nobody listens at {address}"))


def _accept(endpoint: Endpoint, listener: Listener) -> None:
    if not endpoint.ended:
        try:
            endpoint.begin(listener.factory())
        except ConnectionAbortedError:  # as asyncio's servers, which log it and drop the connection
            endpoint.abort()
    else:
        endpoint.open = False
        endpoint.process.endpoints.pop(endpoint, None)


def _connected(endpoint: Endpoint, factory: Callable[[], Any], done: asyncio.Future[Endpoint]) -> None:
    if done.done():  # the caller has given up
        endpoint.abort()
        return
    if not endpoint.open:
        done.set_exception(ConnectionResetError(104, "the connection was reset"))
        return
    endpoint.begin(factory())
    done.set_result(endpoint)
