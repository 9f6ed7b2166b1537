"""The nodes that have the brokers' data: they stand in the metadata, where each controller of a quorum finds them.

Before level QUORUM they are in a file beside the metadata log. The first to keep homes at that level takes over what is
in the file, and removes it. So a person can correct them: what such a file says takes precedence.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from actors.log.files import REAL_WRITER
from placement.metadata import ClusterMetadata, Home
from placement.nodes import Node, PlacementError
from placement.records import QUORUM, BrokerHomeRecord, Record


class Noted(NamedTuple):
    """The metadata, as far as it is about homes."""

    level: int
    homes: Mapping[int, Home]


class Homes:
    """`noted` gives what is decided; `commit` returns when records have committed, and raises OSError."""

    def __init__(self, file: Path, noted: Callable[[], Noted], commit: Callable[[Sequence[Record]], None]) -> None:
        self._file = file
        self._noted = noted
        self._commit = commit

    def known(self) -> dict[int, Node]:
        """The node of each broker's data as it was noted, by broker id. Raises OSError, PlacementError."""
        return {broker_id: _node(home) for broker_id, home in self._noted().homes.items()} | self._in_file()

    def keep(self, nodes: Mapping[int, Node], port: int | None) -> None:
        """Note the nodes of all brokers before they are started there. Raises OSError; then nothing has changed.

        `port` is for builds that read the file.
        """
        level, before = self._noted()
        if level < QUORUM:
            text = json.dumps({str(broker_id): [node.address, port, node.name] for broker_id, node in nodes.items()})
            REAL_WRITER.write_atomically(self._file, text.encode())
            return
        homes = {broker_id: Home(node.address, node.name) for broker_id, node in nodes.items()}
        records = [BrokerHomeRecord(*each) for each in homes.items() if before.get(each[0]) != each[1]]
        if records:
            self._commit(records)
        with suppress(OSError):  # the records count from now on, also beside it
            self._file.unlink(missing_ok=True)

    def _in_file(self) -> dict[int, Node]:
        if not self._file.exists():
            return {}
        try:
            noted: dict[str, list[Any]] = json.loads(self._file.read_text())
            return {int(broker_id): _node_in_file(values) for broker_id, values in noted.items()}
        except (ValueError, TypeError, AttributeError) as error:
            form = '{"0": ["10.0.0.7", null, "label"], "1": ...}'
            raise PlacementError(
                f"{self._file} does not say where brokers' data is, as {form} would: {error}"
            ) from None


def noted_in(metadata: ClusterMetadata) -> Noted:
    """A copy of it, to be made where nothing changes meanwhile."""
    return Noted(metadata.level, dict(metadata.homes))


def _node(home: Home) -> Node:
    return Node("", home.address, 0.0, name=home.name)


def _node_in_file(values: list[Any]) -> Node:
    """Earlier builds noted no label. Later values are none of ours."""
    match values:
        case [str(address), _, str(name), *_]:
            return Node("", address, 0.0, name=name)
        case [str(address), _]:
            return Node("", address, 0.0)
        case _:
            raise ValueError(f"{values!r} is none of these")
