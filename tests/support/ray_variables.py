"""Ray's variables for programs of the tests: tokens are given and asked for, as from Ray 2.61 by default.

A test of a Ray without tokens sets RAY_AUTH_MODE itself, or lives in a home of its own (tests/ray/ray_start.py), where
what this Ray does by default is done.
"""

from __future__ import annotations

import os
from typing import Final

TOKENS: Final = {"RAY_AUTH_MODE": "token"}
TOKEN: Final = {**TOKENS, "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
"""For programs that start a Ray of their own by other ways than ours: it asks for this token, and they have it."""
NO_TOKENS: Final = {"RAY_AUTH_MODE": "disabled"}


def without_ray() -> dict[str, str]:
    """This process's environment, but for what it has set up for a Ray of its own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | TOKENS
