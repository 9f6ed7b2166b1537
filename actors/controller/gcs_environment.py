"""The part of a node's environment that concerns the GCS, which has the environment of its node's `ray start`, too."""

from __future__ import annotations

import os

from actors.runtime.ray_inside import RECONNECT, REDIS, STORE, STORE_PATH


def environment() -> dict[str, str]:
    """The environment variables of this node's `ray start` that concern the GCS."""
    return {name: os.environ[name] for name in (STORE, STORE_PATH, REDIS, RECONNECT) if name in os.environ}
