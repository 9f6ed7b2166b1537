"""Real Prometheus scrapes a live cluster's Monitor with the files of docs/monitoring."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from actors.client.admin.admin import Admin
from actors.client.consumer.consumer import Consumer
from actors.client.producer.producer import Producer
from actors.client.records import OffsetAndMetadata, TopicPartition
from actors.monitor.metric_table import BY_NAME
from tests.compat.peers import Peer
from tests.compat.prometheus import Prometheus, metrics_url, prometheus
from tests.compat.raw import create_topics
from tests.compat.support import against, wait_until
from tools.generate_docs import DOCS

FOLDER = DOCS / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana.json").read_text())
# Prefixes of metrics that have no rows in a healthy cluster without security and pools.
_MAY_BE_EMPTY = (
    *("coterie_tls_", "coterie_broker_silent", "coterie_group_rebalances_total", "coterie_logins_"),
    "coterie_pool_",
)


def expressions() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield (
                panel["title"],
                re.sub(r"\$__rate_interval", "30s", re.sub(r"\$(group|topic)\b", ".*", target["expr"])),
            )


def behind(servers: str, name: str) -> None:
    """A topic of 100 records, of which a group has read 30 and committed that."""
    create_topics(servers, {name: 1})
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(100):
            producer.send(name, b"%d" % number, partition=0)
        producer.flush()
    with Consumer(bootstrap_servers=servers, group_id=name, enable_auto_commit=False) as consumer:
        consumer.assign([TopicPartition(name, 0)])
        consumer.commit({TopicPartition(name, 0): OffsetAndMetadata(30)})


@against("coterie")
def test_prometheus_scrapes_a_monitor_and_answers_the_dashboard_and_the_alerts(
    kafka: Peer, name: str, tmp_path: Path
) -> None:
    assert kafka.data_dir is not None
    behind(kafka.bootstrap_servers, name)
    with prometheus(tmp_path, metrics_url(kafka.data_dir), FOLDER / "alerts.yml") as running:
        lag = f'kafka_consumergroup_lag{{consumergroup="{name}",topic="{name}",partition="0"}}'
        found = wait_until(lambda: running.query(lag), what="the group's lag")
        assert found[0]["value"][1] == "70"
        seconds = running.query(lag.replace("_lag{", "_lag_seconds{"))
        assert 0 < float(seconds[0]["value"][1]) < 600
        assert running.query('up{job="coterie"}')[0]["value"][1] == "1"
        wait_until(lambda: running.query("rate(coterie_monitor_looks_total[30s])"), what="two scrapes")
        empty = {title for title, asked in expressions() if not running.query(asked)}
        assert empty == set(), "panels without anything in them"
        _alerts_are_healthy(running)


def _alerts_are_healthy(running: Prometheus) -> None:
    def judged() -> bool:
        rules = [rule for group in running.get("rules")["groups"] for rule in group["rules"]]
        return bool(rules) and all(rule["health"] == "ok" for rule in rules)

    wait_until(judged, what="all alerts evaluated without an error")
    firing = {alert["labels"]["alertname"] for alert in running.get("alerts")["alerts"] if alert["state"] == "firing"}
    assert not firing, firing


@against("coterie")
def test_what_is_exposed_is_what_the_docs_list_and_agrees_with_the_cluster(kafka: Peer, name: str) -> None:
    assert kafka.data_dir is not None
    behind(kafka.bootstrap_servers, name)
    url = metrics_url(kafka.data_dir)

    def shown() -> str | None:
        with urllib.request.urlopen(url, timeout=30) as answer:
            text = answer.read().decode()
        return text if f'kafka_consumergroup_lag{{consumergroup="{name}"' in text else None

    text = str(wait_until(shown, what="the group"))
    rows = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
    known = {re.sub(r"_(bucket|sum|count)$", "", row) if row not in BY_NAME else row for row in rows}
    assert known <= BY_NAME.keys()
    missing = {each for each in BY_NAME.keys() - known if not each.startswith(_MAY_BE_EMPTY)}
    assert missing == set()
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        brokers = len(admin.describe_cluster().brokers)
    assert f"kafka_brokers {brokers}.0" in text


def test_promtool_takes_the_rules_and_the_configuration() -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    for command in (("check", "rules", "alerts.yml"), ("check", "config", "prometheus.yml")):
        done = subprocess.run([program, *command], cwd=FOLDER, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
