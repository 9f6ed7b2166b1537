"""The network between hosts: a switch in a space of its own, a link for each host, and one for this machine.

Frames find their way by neighbour tables that are fixed: no ARP is asked. A direction that is muted has an address of
nobody's there, so its packets leave and are lost, and no system call says so, as behind a switch that has failed.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.hosts.space import Space, run_ip

OUTSIDE: Final = "outside"
"""The name of this machine among the hosts: it is a neighbour as they are, for clients and for the test."""
_ALL: Final = "*"
_NOBODY: Final = "02:ff:ff:ff:ff:ff"
_SUBNETS: Final = 512
"""So many networks of 254 addresses are in 198.18.0.0/15, which is kept free for tests (RFC 2544)."""
_OUTSIDE_NUMBER: Final = 254


def hardware(address: str) -> str:
    """The hardware address of a host with this address."""
    return ":".join(["02", "00", *(f"{int(part):02x}" for part in address.split("."))])


@dataclass(slots=True)
class Link:
    """A link to the switch. `device` is its name in `space`, or here if that is None; `port` is the switch's end."""

    address: str
    device: str
    port: str
    space: Space | None = None
    pump: subprocess.Popen[bytes] | None = None
    known: dict[str, str] = field(default_factory=dict)
    """Its neighbour table: hardware addresses by address."""

    def learn(self, table: dict[str, str]) -> None:
        """Take over these neighbours. Former ones stay in the table, and nobody answers there."""
        news = {address: at for address, at in table.items() if self.known.get(address) != at}
        if news:
            lines = [f"neigh replace {a} lladdr {at} dev {self.device} nud permanent" for a, at in news.items()]
            self.space.ip(*lines) if self.space is not None else run_ip(lines)
            self.known |= news


class Network:
    """Links by name. Each pair of names is a direction that can be muted; a cut mutes both ways to all."""

    def __init__(self) -> None:
        self._hub = Space("switch")
        try:
            self._number = self._claimed()
            self._hub.ip("link add br0 type bridge mcast_snooping 0", "link set br0 up", "link set p0 master br0 up")
            outside = self.address(_OUTSIDE_NUMBER)
            self.device: Final = f"cth{self._number}"
            """The end of the network on this machine."""
            run_ip(_link_up(self.device, outside))
        except BaseException:
            self._hub.end()
            raise
        self._links = {OUTSIDE: Link(outside, self.device, "p0")}
        self._ports = 0
        self._cut: set[str] = set()
        self._muted: set[tuple[str, str]] = set()

    def _claimed(self) -> int:
        """The number of a network that nobody has. Whoever makes its device first has it."""
        for number in random.sample(range(_SUBNETS), _SUBNETS):
            end = f"type veth peer name p0 netns {self._hub.pid}"
            done = subprocess.run(
                ["ip", "link", "add", f"cth{number}", *end.split()], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return number
            if "File exists" not in done.stderr:
                raise OSError(done.stderr.strip())
        raise OSError("every network of 198.18.0.0/15 is in use")

    def address(self, number: int) -> str:
        """The address that is the number-th of this network."""
        return f"198.{18 + self._number // 256}.{self._number % 256}.{number}"

    def connect(self, name: str, address: str, space: Space) -> None:
        """Give a host a link; one that it had has gone with its space."""
        self._ports += 1
        port = f"p{self._ports}"
        self._hub.ip(f"link add {port} type veth peer name eth0 netns {space.pid}", f"link set {port} master br0 up")
        space.ip(*_link_up("eth0", address))
        self._links[name] = Link(address, "eth0", port, space)
        self._tell()

    def disconnect(self, name: str) -> None:
        """Forget a host whose space has ended. Its address is silent."""
        link = self._links.pop(name)
        _end(link.pump)
        self._tell()

    def cut(self, name: str) -> None:
        """Nothing passes to or from a host, and no socket is told."""
        self._cut.add(name)
        self._tell()

    def heal(self, name: str) -> None:
        """Undo a cut."""
        self._cut.discard(name)
        self._tell()

    def mute(self, name: str, *to: str) -> None:
        """Lose everything that a host sends to these, or to all others. Everything that they send arrives."""
        self._muted |= {(name, other) for other in to or (_ALL,)}
        self._tell()

    def unmute(self, name: str, *to: str) -> None:
        """Undo the same mute."""
        self._muted -= {(name, other) for other in to or (_ALL,)}
        self._tell()

    def _tell(self) -> None:
        """Write the neighbour tables."""
        for name, link in self._links.items():
            link.learn({other.address: self._way(name, to) for to, other in self._links.items() if to != name})

    def _way(self, name: str, to: str) -> str:
        passes = not self._cut & {name, to} and not self._muted & {(name, to), (name, _ALL)}
        return hardware(self._links[to].address) if passes else _NOBODY

    def slow(self, name: str, milliseconds: float) -> None:
        """Delay all packets on a host's link, in each direction; 0 ends it. Packets under way are lost."""
        link = self._links[name]
        if link.pump is not None:
            _end(link.pump)
            link.pump = None
            self._hub.ip(f"link del s{link.port}", f"link set {link.port} master br0")
        if milliseconds:
            beside = f"s{link.port}"
            self._hub.ip(
                f"link add {beside} type veth peer name t{link.port}",
                f"link set {link.port} nomaster",
                f"link set {beside} up",
                f"link set t{link.port} master br0 up",
            )
            link.pump = self._pump(link.port, beside, milliseconds)

    def _pump(self, one: str, other: str, milliseconds: float) -> subprocess.Popen[bytes]:
        own = Path(__file__).with_name("pump.py")
        command = [sys.executable, "-I", "-S", str(own), one, other, str(milliseconds)]
        pump = self._hub.popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert pump.stdout is not None
        if pump.stdout.readline() != b"up\n":
            raise OSError(f"a link cannot be slowed: its pump ended with {pump.wait()}")
        return pump

    def end(self) -> None:
        """The switch goes, and with it all links."""
        for link in self._links.values():
            _end(link.pump)
        run_ip([f"link del {self.device}"])  # the kernel would do it, in its own time
        self._hub.end()


def _link_up(device: str, address: str) -> Sequence[str]:
    return (
        f"link set {device} address {hardware(address)} addrgenmode none",
        f"addr add {address}/24 dev {device}",
        f"link set {device} up",
    )


def _end(pump: subprocess.Popen[bytes] | None) -> None:
    if pump is not None:
        pump.communicate()  # it ends with its standard input
