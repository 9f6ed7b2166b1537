"""Fixtures for pytest: `coterie_cluster`, a real Kafka for the whole run, and `coterie_topic`, a new topic for a test.

Nothing is started, and nothing else imported, before a test asks for one. Under xdist each worker has a cluster of its
own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from coterie.testing import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of pytest's own file of settings."""
    parser.addini("coterie_brokers", "how many brokers the cluster of `coterie_cluster` has", default="1")
    parser.addini("coterie_settings", "settings of these brokers, each a line NAME=VALUE", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Raises UsageError for options that no cluster can have. The names of settings are the brokers' to know."""
    _brokers(config)
    _settings(config)


def _brokers(config: pytest.Config) -> int:
    value: str = config.getini("coterie_brokers")
    try:
        brokers = int(value)
    except ValueError:
        brokers = 0
    if brokers < 1:
        raise pytest.UsageError(f"coterie_brokers is a whole number, at least 1, not {value!r}")
    return brokers


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for line in config.getini("coterie_settings"):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"coterie_settings has lines NAME=VALUE, not {line!r}")
        settings[name.strip()] = value.strip()
    return settings


@pytest.fixture(scope="session")
def coterie_cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    """A cluster that runs until the end of the run: `bootstrap_servers`, `create_topic`, and faults by call."""
    from coterie import testing

    with testing.cluster(_brokers(pytestconfig), _settings(pytestconfig)) as cluster:
        yield cluster


@pytest.fixture
def coterie_topic(request: pytest.FixtureRequest, coterie_cluster: Cluster) -> Iterator[str]:
    """The name of a new topic: of one partition, or of as many as an indirect parameter says.

    Delays and refusals end with the test.
    """
    yield coterie_cluster.create_topic(partitions=getattr(request, "param", 1))
    coterie_cluster.leave_alone()
