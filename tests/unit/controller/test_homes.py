"""The nodes that have the brokers' data: recorded in the metadata, and corrected by a file that a person puts there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.controller.homes import Homes, Noted
from placement.metadata import Home
from placement.nodes import Node, PlacementError
from placement.records import QUORUM, BrokerHomeRecord, Record


class World:
    def __init__(self, folder: Path) -> None:
        self.homes: dict[int, Home] = {0: Home("10.0.0.0"), 1: Home("10.0.0.1", "disk-1")}
        self.file = folder / "homes.json"
        self.of = Homes(self.file, lambda: Noted(QUORUM, dict(self.homes)), self._commit)

    def _commit(self, records: Sequence[Record]) -> None:
        for each in records:
            assert isinstance(each, BrokerHomeRecord)
            self.homes[each.broker_id] = each.home


def test_a_file_corrects_what_is_recorded_and_is_taken_over(tmp_path: Path) -> None:
    """Else a machine without a label that has another address now could not be said to have its broker's data."""
    w = World(tmp_path)
    w.file.write_text('{"0": ["10.0.0.9", null]}')
    known = w.of.known()
    assert {broker_id: node.home for broker_id, node in known.items()} == {0: "10.0.0.9", 1: "disk-1"}
    w.of.keep(known, None)
    assert w.homes == {0: Home("10.0.0.9"), 1: Home("10.0.0.1", "disk-1")}
    assert not w.file.exists()
    assert w.of.known() == {broker_id: Node("", h.address, 0.0, name=h.name) for broker_id, h in w.homes.items()}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"0": "10.0.0.9"}', '{"0": ["10.0.0.9"]}', '{"a": ["10.0.0.9", 0]}', "{,}"]
)
def test_a_file_that_says_something_else_is_named(tmp_path: Path, text: Any) -> None:
    w = World(tmp_path)
    w.file.write_text(text)
    with pytest.raises(PlacementError, match=r"homes\.json does not say where brokers' data is, as .*: "):
        w.of.known()
