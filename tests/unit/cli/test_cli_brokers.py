"""`coterie brokers roll`: what it asks of the cluster, and what it prints."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli.main import cli


class Rolled:
    """Does for a cluster; broker 2 is back first."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, dict[str, Any]]] = []
        self.notes = ("links take both",)
        self.bootstrap_servers = "127.0.0.1:9192"

    def connect(self, *arguments: Any, **options: Any) -> Rolled:
        return self

    def __enter__(self) -> Rolled:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def roll(self, config: Any, *, on_restarted: Callable[[int], None], **options: Any) -> None:
        self.asked.append((config, options))
        warnings.warn("everybody may connect", stacklevel=1)
        on_restarted(2)
        on_restarted(0)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Rolled:
    made = Rolled()
    monkeypatch.setattr("actors.cluster.Cluster.connect", made.connect)
    return made


def roll(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["brokers", "roll", *arguments])


def test_what_is_given_changes_and_the_brokers_that_are_back_are_told(cluster: Rolled, tmp_path: Path) -> None:
    file = tmp_path / "broker.properties"
    file.write_text("max.connections=7\ngroup.max.size=3\n")
    given = ("--config-file", str(file), "--config", "max.connections=8", "--unset", "num.partitions")
    done = roll(*given, "--listeners", "SASL_SSL://:9192", "--timeout", "9", "--insecure")
    assert done.stdout == "restarted 2\nrestarted 0\nrolled bootstrap.servers=127.0.0.1:9192\n"
    assert "warning: everybody may connect" in done.stderr
    assert "links take both" in done.stderr
    ((config, options),) = cluster.asked
    assert config == {
        "max.connections": "8",
        "group.max.size": "3",
        "listeners": "SASL_SSL://:9192",
        "num.partitions": None,
    }
    assert options == {"insecure": True, "new_secret": False, "forget_old_secret": False, "timeout_s": 9}


def test_a_new_secret_and_the_end_of_the_old_one_are_two_steps(cluster: Rolled) -> None:
    assert roll("--new-secret").exit_code == 0
    assert cluster.asked[0][1]["new_secret"]
    both = roll("--new-secret", "--forget-old-secret")
    assert both.exit_code != 0
    assert len(cluster.asked) == 1
