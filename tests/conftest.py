"""What holds for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.left_open import LEFT_OPEN

# A shell that runs the tests in the background has them ignore Ctrl-C, which every program they start would inherit:
# and some tests are about Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine fails no property; CI tries the same examples each time, people's machines ever new ones.
settings.register_profile("coterie", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("coterie")


def pytest_configure(config: pytest.Config) -> None:
    # On a slow machine it may be said of a cluster; what is left of it is ended all the same.
    config.addinivalue_line("filterwarnings", "ignore:the cluster did not stop in order within:UserWarning")


@pytest.fixture(autouse=True)
def _nothing_left_open() -> Iterator[None]:
    """A suite of thousands of tests in one process has a thousand file descriptors and no more."""
    yield
    LEFT_OPEN.close()
