"""The lines of logs: as text for people and as JSON for programs, with the fields of the process and of the call."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from actors.broker.coordinators.link import ShardLink
from actors.client.records import ConsumerGroupMetadata
from actors.coordinator_kinds.groups import GROUPS
from actors.coordinator_kinds.groups.rebalances import log_rebalances
from actors.links.rebalances import Rebalances
from actors.links.views import ClassicRebalanceView
from actors.members.log_fields import about_member
from actors.runtime.logs import JSON, TEXT, Fields, LogPlace, about, at, formatter
from actors.runtime.process import log_to
from actors.settings.secret import Secret

OWN: Fields = {"cluster": "default", "role": "broker", "broker": 0}


def record(
    text: str, *arguments: Any, extra: dict[str, Fields] | None = None, raised: bool = False
) -> logging.LogRecord:
    error = None
    if raised:
        try:
            raise ValueError("a reason")
        except ValueError:
            error = sys.exc_info()
    made = logging.getLogger("actors.x").makeRecord(
        "actors.x", logging.INFO, "x.py", 1, text, arguments, error, None, extra
    )
    made.created = 1_764_000_000.1239
    return made


def test_a_line_of_json_has_time_level_logger_text_and_fields() -> None:
    extra = at("__consumer_offsets", 3, group="orders", generation=7, member="m-1")
    line = formatter(JSON, OWN).format(record("%s has left", "m-1", extra=extra))
    assert "\n" not in line
    assert json.loads(line) == {
        "ts": "2025-11-24T16:00:00.123Z",
        "level": "INFO",
        "logger": "actors.x",
        "msg": "m-1 has left",
        "cluster": "default",
        "role": "broker",
        "broker": 0,
        "topic": "__consumer_offsets",
        "partition": 3,
        "group": "orders",
        "generation": 7,
        "member": "m-1",
    }


def test_a_traceback_and_what_clients_send_stay_on_one_line_of_json() -> None:
    line = formatter(JSON, OWN).format(record("from\n%s", "evil\u2028", extra=about(group="a\nb"), raised=True))
    assert len(line.splitlines()) == 1
    found = json.loads(line)
    assert (found["msg"], found["group"]) == ("from\nevil\u2028", "a\nb")
    assert found["exc"].startswith("Traceback")
    assert found["exc"].endswith("ValueError: a reason")


def test_a_line_of_text_ends_with_its_fields_and_a_traceback_is_below_it() -> None:
    extra = at("orders", 3, group="a b\n", broker=1)
    first, *rest = formatter(TEXT, OWN).format(record("it was", extra=extra, raised=True)).splitlines()
    assert first.endswith(
        ' INFO actors.x: it was [cluster=default role=broker broker=1 topic=orders partition=3 group="a b\\n"]'
    )
    assert rest[0] == "  Traceback (most recent call last):"


def test_a_line_without_fields_has_no_brackets() -> None:
    assert formatter(TEXT, {}).format(record("it was")).endswith(" INFO actors.x: it was")


def test_a_secret_is_hidden_in_both() -> None:
    for log_format in (TEXT, JSON):
        assert "hunter2" not in formatter(log_format, OWN).format(
            record("it is %s %r", Secret("hunter2"), Secret("hunter2"))
        )


@pytest.mark.parametrize("name", ["actors.broker.coordinators.hub", "coterie.audit", "asyncio"])
def test_a_process_writes_what_its_code_and_its_audit_say(tmp_path: Path, name: str) -> None:
    """Audit lines of denials went nowhere: only loggers below `actors` were written."""
    roots = [logging.getLogger(each) for each in (None, "actors", "coterie", "asyncio")]
    before = [(root.handlers[:], root.level, root.propagate) for root in roots]
    try:
        log_to(LogPlace(str(tmp_path), "default", JSON), "broker-0", role="broker", broker=0)
        logging.getLogger(name).info("denied", extra=about(peer="10.0.0.7"))
        written = json.loads((tmp_path / "broker-0.log").read_text())
    finally:
        for root, (handlers, level, propagate) in zip(roots, before, strict=True):
            for handler in set(root.handlers) - set(handlers):
                handler.close()
            root.handlers[:], root.propagate = handlers, propagate
            root.setLevel(level)
    assert (written["logger"], written["cluster"], written["broker"]) == (name, "default", 0)
    assert (written["msg"], written["peer"]) == ("denied", "10.0.0.7")


def test_what_a_broker_says_of_a_shard_names_its_partition_while_it_has_one() -> None:
    link = ShardLink(protocol=None, handlers={})  # type: ignore[arg-type]
    link.greet(41)
    assert link.fields() == about(pid=41)
    link.assign(GROUPS, 3, 5, {})
    assert link.fields() == at("__consumer_offsets", 3, epoch=5, pid=41)


def test_a_members_lines_name_group_member_and_generation() -> None:
    joined = ConsumerGroupMetadata("orders", 7, "m-1", None)
    assert about_member(joined) == about(group="orders", member="m-1", generation=7)
    assert about_member(ConsumerGroupMetadata("orders", -1, "", None)) == about(group="orders")


def test_a_shard_logs_why_rebalances_were_and_of_many_only_how_many(caplog: pytest.LogCaptureFixture) -> None:
    over = tuple(ClassicRebalanceView(f"g{number}", 0, number, "m-1 left", "m-1") for number in range(60))
    with caplog.at_level(logging.INFO):
        log_rebalances(Rebalances(over, 7, ()), lambda **more: at("__consumer_offsets", 3, **more))
    assert len(caplog.records) == 51
    first, last = caplog.records[0], caplog.records[-1]
    assert first.getMessage() == "a rebalance ended generation 0 of group 'g0': m-1 left"
    fields = first.__dict__["fields"]
    assert fields == at("__consumer_offsets", 3, group="g0", generation=0, member="m-1")["fields"]
    assert last.getMessage() == "17 more rebalances are not listed"
