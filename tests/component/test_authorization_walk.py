"""The walk: every API key, every version, without any right and with each single right.

That is XG-02 and XG-03 of docs/conformance.md. A key that brokers serve and that has no row in
tests/support/acl_rows.py fails. A denied request touches nothing, and its answer is the same whether the topic exists
or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.broker.handlers.registry import APIS
from actors.broker.handlers.rights import Right
from actors.security.acl import Acl
from actors.wire import messages as m
from actors.wire.errors import WireError
from actors.wire.framing import decode_response
from placement.metadata import ClusterMetadata
from tests.support.acl_rows import (
    ALL,
    CLUSTER,
    DENIALS,
    GROUP,
    NONE,
    PASSES,
    ROWS,
    TOPIC,
    Has,
    Row,
    acl,
    error_codes,
    with_what_follows,
)
from tests.support.acl_world import RELAYED, World


class Walk:
    """A world for each of: the topic exists or not. It is as it was before each request."""

    def __init__(self, path: Path, acls: list[Acl], *, exists: bool) -> None:
        self.world = World(path, acls, ["t"] if exists else [], auto_create_topics_enable="false")
        self.exists = exists
        self._image = self.world.broker.metadata.to_wire()

    def ask(self, row: Row, version: int) -> tuple[bytes | str | None, Counter[str]]:
        """The answer, and what it touched."""
        broker = self.world.broker
        broker.metadata = broker.context.metadata = broker.controller.metadata = ClusterMetadata.from_wire(self._image)
        before = Counter(self.world.touched)
        answer = self.world.bytes_for(row.request(version), version)
        return answer, Counter(self.world.touched) - before


def decoded(row: Row, version: int, frame: bytes) -> list[int]:
    return error_codes(decode_response(m.response_class(row.key), version, frame[4:])[1])


def walks(tmp_path: Path, acls: list[Acl]) -> Iterator[Walk]:
    for exists in (True, False):
        yield Walk(tmp_path, acls, exists=exists)


def expect_answer(row: Row, version: int, walk: Walk, has: Has) -> bytes | str | None:
    answer, touched = walk.ask(row, version)
    expected = row.codes(has, version, walk.exists)
    where = f"{row.key.name} v{version}, topic {'exists' if walk.exists else 'missing'}, with {set(has) or 'nothing'}"
    if answer == RELAYED or answer is None:
        assert expected == PASSES, where
        return answer
    assert isinstance(answer, bytes)
    codes = decoded(row, version, answer)
    if expected == PASSES:
        assert not DENIALS & set(codes), where
    else:
        assert codes == expected, where
        if codes and codes[0] in DENIALS and set(codes) <= DENIALS | {NONE}:
            assert not touched, where
    return answer


@pytest.mark.conformance(
    "XG-02",
    "XG-03",
    "XC-30",
    "XC-31",
    "XC-32",
    "XC-33",
    "XC-34",
    "XC-35",
    "XC-36",
    "XC-37",
    "XC-38",
    "XC-39",
    "XC-40",
    "XC-41",
    "XC-42",
    "XC-43",
    "XC-44",
    "XC-45",
    "XC-46",
    "XC-47",
    "XC-51",
    "XC-52",
    "XC-53",
    "XC-54",
    "XC-55",
    "XC-56",
    "XC-57",
    "XC-58",
    "XC-59",
    "XC-60",
    "XC-61",
    "XC-62",
    "XC-63",
    "XC-64",
    "XC-65",
    "XC-66",
    "XC-68",
)
@pytest.mark.parametrize("right", [None, *ALL.values()], ids=str)
def test_each_request_is_answered_by_the_rights_that_its_client_has(tmp_path: Path, right: Right | None) -> None:
    has = frozenset[str]() if right is None else with_what_follows(right)
    acls = [] if right is None else [acl(right)]
    there, missing = walks(tmp_path, acls)
    for row in ROWS:
        for version in row.each():
            one, other = expect_answer(row, version, there, has), expect_answer(row, version, missing, has)
            denied = row.codes(has, version, True)
            if row.hides and denied != PASSES and denied == row.codes(has, version, False):
                assert one == other, f"{row.key.name} v{version} tells whether a topic exists"


@pytest.mark.conformance("XG-02")
def test_who_has_all_rights_is_denied_nothing(tmp_path: Path) -> None:
    everything = frozenset(ALL)
    for walk in walks(tmp_path, [acl(right) for right in ALL.values()]):
        for row in ROWS:
            for version in row.each():
                expect_answer(row, version, walk, everything)


@pytest.mark.conformance("XC-01", "XC-10")
def test_a_super_user_needs_no_acl(tmp_path: Path) -> None:
    world = World(tmp_path, super_users=" User:a ;User:ANONYMOUS", auto_create_topics_enable="false")
    for row in ROWS:
        for version in row.each():
            answer = world.bytes_for(row.request(version), version)
            codes = decoded(row, version, answer) if isinstance(answer, bytes) else []
            assert not {TOPIC, GROUP, CLUSTER} & set(codes) or "nobody's" in str(row.request(version)), row.key.name


@pytest.mark.conformance("XG-02")
def test_every_key_that_is_served_is_walked() -> None:
    """give a new API a row in tests/support/acl_rows.py."""
    assert {int(row.key) for row in ROWS} == {int(key) for key in APIS}


@pytest.mark.conformance("XC-69")
@pytest.mark.parametrize("key", [key for key in range(93) if key not in APIS])
def test_what_is_not_served_is_not_answered(tmp_path: Path, key: int) -> None:
    world = World(tmp_path)
    frame = key.to_bytes(2, "big") + bytes(8)
    with pytest.raises(WireError, match="not served"):
        world.router.on_frame(world.connection, frame, 0, len(frame))


@pytest.mark.conformance("XC-80")
def test_the_rights_of_the_walk_are_all_that_requests_need() -> None:
    """The table of requests declares no right that the walk does not give."""
    declared = {str(right) for api in APIS.values() for right in api.rights}
    assert declared <= set(ALL)
