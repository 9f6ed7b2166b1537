"""`coterie brokers replace`: its words and its question before a broker's data is given up."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result

from actors.cli import main
from actors.cluster import Cluster
from actors.links.replacements import Outlook
from actors.runtime.ray_connection import ClusterError


class FakeCluster:
    """A running cluster that refuses as its controller would."""

    bootstrap_servers = "h:9092"

    def __init__(self, outlook: Outlook) -> None:
        self.outlook = outlook
        self.replaced = False

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None: ...

    def replacement(self, broker_id: int, **_: Any) -> Outlook:
        return self.outlook

    def replace_broker(self, broker_id: int, *, accept_data_loss: bool, **_: Any) -> str:
        if self.outlook.sole_copies and not accept_data_loss:
            raise ClusterError("broker 1 alone has everything of t-0")
        self.replaced = True
        return "h:9093"


def replace(monkeypatch: pytest.MonkeyPatch, outlook: Outlook, *options: str) -> tuple[FakeCluster, Result]:
    """Run the command, and answer its question with no."""
    cluster = FakeCluster(outlook)
    monkeypatch.setattr(Cluster, "connect", lambda *_, **__: cluster)
    return cluster, CliRunner().invoke(main.cli, ["brokers", "replace", "1", *options], input="n\n")


def test_nobody_is_asked_for_a_yes_to_what_is_refused_then(monkeypatch: pytest.MonkeyPatch) -> None:
    sole = Outlook(1, 3, ("t-0",))
    _, result = replace(monkeypatch, sole)
    assert "Give up" not in result.output
    cluster, result = replace(monkeypatch, sole, "--accept-data-loss")
    assert "Give up the data of broker 1, with 3 partitions?" in result.output
    assert not cluster.replaced


def test_partitions_whose_other_copies_are_away_are_named_before_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, result = replace(monkeypatch, Outlook(1, 3, (), copies_away=("t-0", "t-2")))
    said, _asked = result.output.split("Give up the data")
    assert "the other copies of t-0, t-2 are on brokers that are away" in said
    assert not cluster.replaced
