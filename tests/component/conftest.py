"""Fixtures that several files of tests here share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.client_broker import ScriptedBroker, broker


@pytest.fixture(autouse=True)
def _umask() -> Iterator[None]:
    """An actor that a test makes here sets that of its process."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def kafka() -> Iterator[ScriptedBroker]:
    """A broker that does what the test says; its topic t has two partitions."""
    with broker() as running:
        running.topic("t", 2)
        yield running
