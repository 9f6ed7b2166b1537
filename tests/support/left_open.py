"""What a test's helpers open and the test does not close: let go of when the test has ended (tests/conftest.py)."""

from __future__ import annotations

import contextlib

LEFT_OPEN = contextlib.ExitStack()
