"""Resources that a test's helpers open and the test does not close: tests/conftest.py closes them after the test."""

from __future__ import annotations

import contextlib

LEFT_OPEN = contextlib.ExitStack()
