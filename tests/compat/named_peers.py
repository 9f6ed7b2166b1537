"""A test starts a peer by its name: coterie, kfake or kafka."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.compat.apache_kafka import apache_kafka
from tests.compat.peers import Peer, coterie, kfake


@contextlib.contextmanager
def start(kind: str, folder: Path, config: Mapping[str, str] | None = None) -> Iterator[Peer]:
    """Run the peer called `kind`: coterie, kfake or kafka."""
    with contextlib.ExitStack() as stack:
        if kind == "coterie":
            yield stack.enter_context(coterie(folder, config=config)).peer()
        elif kind == "kfake":
            yield stack.enter_context(kfake(folder, config=config))
        elif kind == "kafka":
            yield stack.enter_context(apache_kafka(folder, config))
        else:
            raise ValueError(f"no peer is called {kind!r}")
