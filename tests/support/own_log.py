"""The log of our own code alone: a foreign client that an earlier test left open may log at any time."""

from __future__ import annotations

import pytest


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The messages of our loggers, the oldest first."""
    return [record.getMessage() for record in caplog.records if record.name.startswith("actors.")]
