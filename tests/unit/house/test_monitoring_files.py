"""The dashboard and the alerts in docs/monitoring: whole, and of metrics that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from actors.monitor.metric_table import BY_NAME
from tools.generate_docs import DOCS

FOLDER = DOCS / "monitoring"
_NAME = re.compile(r"\b(?:kafka|coterie)_[a-z0-9_]+\b")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "grafana.json").read_text())
    return found


def expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    for variable in dashboard()["templating"]["list"]:
        yield variable["query"]
    for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]:
        yield from (rule["expr"] for rule in group["rules"])


def test_grafanas_own_model_reads_the_dashboard_and_loses_nothing() -> None:
    """Grafana itself is in no registry that we use: this is as far as it is checked."""
    given = dashboard()
    read = Dashboard.from_json(given)
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    assert written["uid"] == "coterie"
    assert [panel["title"] for panel in written["panels"]] == [panel["title"] for panel in given["panels"]]
    assert [each["name"] for each in written["templating"]["list"]] == ["datasource", "group", "topic"]
    charts = [panel for panel in given["panels"] if panel["type"] != "row"]
    assert all(panel["description"] and panel["targets"] for panel in charts)


def test_panels_do_not_lie_on_one_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_every_metric_that_is_asked_for_is_exposed(expression: str) -> None:
    for name in _NAME.findall(expression):
        assert name.removesuffix("_bucket") in BY_NAME, name
