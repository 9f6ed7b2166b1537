"""Names members where people read it: no two of a group alike, though all may have one client id.

A name is the instance id of a static member, else the client id, and as much of the member id as tells it from the
others. Kafka makes a member id of one of the two and a UUID.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from actors.coordinator.groups.reports import RebalanceView
from actors.links.member_process import kind_and_process
from actors.links.rebalances import named
from actors.links.views import MemberView

SHORT: Final = 6
"""Characters of the member id, unless more of them are the same."""
_UUID: Final = re.compile(r"(?P<base>.*?)-?(?P<rest>[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Name:
    """A member's name in two parts, and where it is or was, as far as it is known."""

    base: str
    short: str
    host: str = ""
    process: str = ""
    """`pid 4711 on node 3f2a`."""
    member_id: str = ""

    @property
    def text(self) -> str:
        """Both parts."""
        return f"{self.base} {self.short}".strip()

    @property
    def where(self) -> str:
        """Its process if it has said it, else its host."""
        return self.process or self.host

    @property
    def full(self) -> str:
        """All that is known of it."""
        return " ".join(filter(None, (self.member_id, self.host, self.process)))


@dataclass(slots=True)
class _Known:
    client_id: str = ""
    instance_id: str = ""
    host: str = ""
    process: str = ""


class MemberNames:
    """The names of all members that are shown together."""

    def __init__(self, members: Iterable[MemberView] = (), history: Iterable[RebalanceView] = ()) -> None:
        self._known: dict[str, _Known] = {}
        for each in history:
            self._read(each)
        for member in members:
            known = self._known.setdefault(member.member_id, _Known())
            known.client_id, known.host = member.client_id, member.host.lstrip("/")
            known.instance_id, known.process = member.group_instance_id or "", member.process or known.process
        self._names = _names(self._known)

    def of(self, member_id: str) -> Name:
        """The name of a member; of one that nobody has told of, what its id tells."""
        found = self._names.get(member_id)
        return found or _names({member_id: _Known()})[member_id]

    def _read(self, rebalance: RebalanceView) -> None:
        for group in (rebalance.came, rebalance.left, rebalance.expelled, rebalance.replaced):
            for member_id in named(group)[0]:
                self._known.setdefault(member_id, _Known())
        for member_id, said in rebalance.processes.items():
            self._known.setdefault(member_id, _Known()).process = kind_and_process(said)[1]
        if rebalance.member_id and "," not in rebalance.member_id:
            self._tell(rebalance.member_id, rebalance.client_id, rebalance.host)
        for waited in rebalance.waited:
            self._tell(waited.member_id, waited.client_id, waited.host)

    def _tell(self, member_id: str, client_id: str, host: str) -> None:
        known = self._known.setdefault(member_id, _Known())
        known.client_id, known.host = client_id or known.client_id, host.lstrip("/") or known.host


def _names(known: Mapping[str, _Known]) -> dict[str, Name]:
    parts = {member_id: _parts(member_id, each) for member_id, each in known.items()}
    by_base: dict[str, list[str]] = {}
    for member_id, (base, _) in parts.items():
        by_base.setdefault(base, []).append(member_id)
    found: dict[str, Name] = {}
    for base, ids in by_base.items():
        rests = [parts[each][1] for each in ids]
        shorts = _shortest(rests if len(set(rests)) == len(rests) else ids)
        for member_id, short in zip(ids, shorts, strict=True):
            each = known[member_id]
            found[member_id] = Name(base, short, each.host, each.process, member_id)
    return found


def _parts(member_id: str, known: _Known) -> tuple[str, str]:
    """The name that its user gave it, and the rest of its id."""
    for prefix in filter(None, (known.instance_id, known.client_id)):
        if member_id.startswith(f"{prefix}-"):
            return prefix, member_id[len(prefix) + 1 :]
    if (found := _UUID.match(member_id)) is not None:
        return known.instance_id or found["base"] or known.client_id, found["rest"]
    return known.instance_id or known.client_id, member_id


def _shortest(rests: list[str]) -> list[str]:
    """As few characters of each as tell all apart."""
    length = SHORT
    while length < max(map(len, rests)) and len({each[:length] for each in rests}) < len(rests):
        length += 1
    return [each[:length] for each in rests]
