"""Each message has the bytes that it had: processes of other builds send them, and read them.

`bytes_of_messages.txt` has a line for each class and each version of our protocols that says it otherwise than the one
before: the codec's file, the class, the version, and in hex the bytes of a message, whose values are made of the names
of its fields. A class or a field that is new has lines of a new version, and changes no other line.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, Union, get_args, get_origin, get_type_hints
from zlib import crc32

import pytest

from actors.broker.spec import BrokerStart
from actors.controller.spec import ControllerStart
from actors.links import control, member, proof, relay, replication, versions
from actors.links.codec import Codec, NotSpokenError
from actors.links.group_status import WITHOUT_TAG
from actors.members.deployment import records
from actors.members.deployment.spec import SupervisorStart
from actors.monitor.spec import MonitorStart
from actors.offsets_partition.spec import ShardStart
from actors.one_process import orders
from placement.metadata import ClusterMetadata

ROOT: Final = Path(__file__).parents[3]
LINES: Final = Path(__file__).with_name("bytes_of_messages.txt")
LINKS: Final[dict[str, Codec[Any]]] = {
    "actors/links/control.py": control.CODEC,
    "actors/links/replication.py": replication.CODEC,
    "actors/links/relay.py": relay.PAYLOADS,
    "actors/links/member.py": member.CODEC,
    "actors/links/proof.py": proof.CODEC,
    "actors/one_process/orders.py": orders.CODEC,
    "actors/members/deployment/records.py": records.CODEC,
}
STARTS: Final[dict[str, Any]] = {
    "actors/broker/spec.py": BrokerStart,
    "actors/controller/spec.py": ControllerStart,
    "actors/members/deployment/spec.py": SupervisorStart,
    "actors/monitor/spec.py": MonitorStart,
    "actors/offsets_partition/spec.py": ShardStart,
}
SPOKEN: Final = "actors/links/versions.py"
OF_OTHERS: Final = {"actors/monitor/history_rows.py"}
"""Its classes are those of the control link, with the same tags."""

UNVERSIONED: Final = {"actors/links/proof.py", "actors/one_process/orders.py", "actors/members/deployment/records.py"}
"""They are said before versions are, within one build, or have a format of their own."""
CLASSES: Final[list[tuple[str, type]]] = [
    *((file, cls) for file, codec in LINKS.items() for cls in codec.classes.values()),
    *STARTS.items(),
    (SPOKEN, versions.Spoken),
]


def said(file: str, message: Any) -> dict[int, bytes]:
    """The bytes of a message by the first version that has them."""
    if file not in LINKS:
        return {0: versions.encoded(message) if file == SPOKEN else message.encoded()}
    found: dict[int, bytes] = {}
    for version in range(1 if file in UNVERSIONED else versions.LAST + 1):
        with suppress(NotSpokenError):
            found[version] = LINKS[file].encode(message, version)
    return {at: body for at, body in found.items() if body != found.get(at - 1)}


def heard(file: str, cls: Any, body: bytes) -> Any:
    if file in LINKS:
        return LINKS[file].decode(body)
    return versions.decoded(body) if file == SPOKEN else cls.decoded(body)


class Sample:
    """Makes a message of a class of a codec, the same each time. Its values are made of the names of its fields."""

    def __init__(self, file: str) -> None:
        codec = LINKS.get(file)
        self._classes = [*WITHOUT_TAG.values(), *(codec.classes.values() if codec is not None else ())]
        self._within: list[type] = []

    def message(self, cls: Any) -> Any:
        hints = get_type_hints(cls)
        self._within.append(cls)
        made = cls(**{each.name: self._value(hints[each.name], each.name) for each in fields(cls)})
        self._within.pop()
        return made

    def _value(self, hint: Any, name: str) -> Any:
        origin, arguments = get_origin(hint) or hint, get_args(hint)
        if origin in (Union, types.UnionType):
            return self._value(arguments[0], name)
        if origin is tuple and arguments[-1] is Ellipsis:
            return (self._value(arguments[0], name),)
        if origin is tuple:
            return tuple(self._value(each, f"{name}.{at}") for at, each in enumerate(arguments))
        if origin in (dict, Mapping):
            return {self._value(arguments[0], f"{name}.key"): self._value(arguments[1], name)}
        return self._plain(origin, name)

    def _plain(self, cls: Any, name: str) -> Any:
        number = crc32(name.encode()) & 0xFFFF
        if cls in (int, float, bool):
            return cls(number % 2 if cls is bool else number)
        if cls in (str, bytes):
            return name if cls is str else name.encode()
        if cls is ClusterMetadata:
            return ClusterMetadata(name, number)
        if issubclass(cls, Enum):
            return [*cls][number % len(cls)]
        return self.message(cls if is_dataclass(cls) else self._one_of(cls))

    def _one_of(self, base: type) -> type:
        """A class that a field of this base class may have. None that is being made, or it would never end."""
        return next(cls for cls in self._classes if issubclass(cls, base) and cls not in self._within)


def pinned() -> dict[tuple[str, str], dict[int, bytes]]:
    found: dict[tuple[str, str], dict[int, bytes]] = {}
    for line in LINES.read_text().splitlines():
        file, name, version, body = line.split(" ")
        found.setdefault((file, name), {})[int(version)] = bytes.fromhex(body)
    return found


PINNED: Final = pinned()


def test_each_codec_and_each_class_of_ours_is_in_the_walk() -> None:
    found = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "actors").rglob("*.py")
        if "from actors.links.codec import" in (text := path.read_text()) and "= Codec(" in text
    }
    assert found == {file for file, _ in CLASSES} | OF_OTHERS
    assert PINNED.keys() == {(file, cls.__name__) for file, cls in CLASSES}


@pytest.mark.parametrize(("file", "cls"), CLASSES, ids=[f"{Path(file).stem}-{cls.__name__}" for file, cls in CLASSES])
def test_a_message_has_the_bytes_that_it_had(file: str, cls: type) -> None:
    message = Sample(file).message(cls)
    bodies = said(file, message)
    lines = [f"{file} {cls.__name__} {version} {body.hex()}" for version, body in bodies.items()]
    assert PINNED[file, cls.__name__] == bodies, "\n".join(["these are the lines of it now:", *lines])
    *older, newest = PINNED[file, cls.__name__].values()
    assert heard(file, cls, newest) == message
    assert {type(heard(file, cls, each)) for each in older} <= {cls}
