"""A look at records: the last ones of a partition, or those from an offset on, as text, JSON or bytes."""

from __future__ import annotations

import json
from typing import Final

from actors.client.records import ConsumerRecord, TopicPartition
from actors.console import figures
from actors.console.desk import DeskError, Records
from actors.console.html import Child, Html, el
from actors.console.pages import parts
from actors.console.pages.page import Asked, Page, Region
from actors.links.views import GetTopic

_COUNTS: Final = (20, 50, 100, 200)
_SHOWN: Final = 4096
"""Bytes of a key or value that are shown at most."""
_HEADERS: Final = 50


async def page(asked: Asked) -> Page:
    """Records of a partition."""
    name, number = asked.text("name"), asked.number("partition")
    found = await asked.source.view(GetTopic(name))
    if found.row is None:
        gone = parts.nothing(f"There is no topic {name}, or you may not see it.", el("a", "All topics", href="/topics"))
        return Page("No such topic", "topics", (Region("gone", gone),), live=False, status=404)
    count = min(max(asked.number("count", _COUNTS[0]), 1), _COUNTS[-1])
    start = asked.number("offset") if asked.text("offset") else None
    try:
        records = await asked.desk.records(TopicPartition(name, number), start, count)
        body = _records(records, asked, count)
    except DeskError as error:
        body = el("div", el("p", str(error)), class_="alert bad", role="alert")
    regions = (
        Region("head", _head(name, number)),
        Region("form", _form(asked, found.row.partitions)),
        Region("list", body),
    )
    return Page(f"Records of {name}-{number}", "topics", regions, asked.now_ms, live=False)


def _head(name: str, number: int) -> Html:
    up = (el("a", "Topics", href="/topics"), " / ", parts.topic_link(name))
    return el("div", el("div", el("p", up, class_="crumbs"), el("h1", f"Records of {name}-{number}")), class_="title")


def _form(asked: Asked, partitions: int) -> Html:
    return el(
        "form",
        el("input", type="hidden", name="name", value=asked.text("name")),
        _field("Partition", _number("partition", asked.text("partition") or "0", partitions - 1)),
        _field("From offset", _number("offset", asked.text("offset"), None, "the last ones")),
        _field("How many", el("select", [_option(each, asked) for each in _COUNTS], name="count")),
        el("button", "Show", type="submit"),
        action="/records",
        class_="fields",
    )


def _option(count: int, asked: Asked) -> Html:
    return el("option", count, value=count, selected=asked.text("count") == str(count))


def _field(label: str, control: Html) -> Html:
    return el("label", el("span", label), control)


def _number(name: str, value: str, most: int | None, hint: str | None = None) -> Html:
    return el("input", type="number", name=name, value=value, min=0, max=most, placeholder=hint, inputmode="numeric")


def _records(found: Records, asked: Asked, count: int) -> Html:
    log = found.log
    said = f"The log has offsets {figures.count(log.earliest)} to {figures.count(log.latest)}"
    if not found.records:
        return parts.panel("Records", parts.nothing("No records here.", said))
    first, last = found.records[0].offset, found.records[-1].offset
    back = max(first - count, log.earliest)
    links: list[Child] = []
    if first > log.earliest:
        links.append(el("a", "Earlier", href=asked.with_(offset=back), rel="prev"))
    links.append(el("span", f"{figures.count(first)} to {figures.count(last)}"))
    if last + 1 < log.latest:
        links.append(el("a", "Later", href=asked.with_(offset=last + 1), rel="next"))
    pager = el("nav", links, class_="pager", aria_label="Records before and after")
    rows = [_record(each, asked.now_ms) for each in found.records]
    return parts.panel("Records", el("ol", rows, class_="records"), pager, note=said)


def _record(record: ConsumerRecord, now_ms: int) -> Html:
    key = _bytes(record.key)
    head = el(
        "header",
        el("b", figures.count(record.offset), class_="offset"),
        el("span", el("small", "key "), el("code", key[0]), class_="key") if record.key is not None else None,
        el("span", key[1] or None, class_="note"),
        parts.moment(record.timestamp, now_ms) if record.timestamp >= 0 else None,
    )
    return el("li", head, _value(record), _headers(record), data_row=True, tabindex="-1")


def _value(record: ConsumerRecord) -> Html:
    if record.value is None:
        return el("p", "no value: a tombstone", class_="note")
    text, said = _bytes(record.value)
    return el("div", el("pre", text), el("p", said, class_="note") if said else None)


def _headers(record: ConsumerRecord) -> Html | None:
    if not record.headers:
        return None
    rows = [el("div", el("dt", _name(key)), el("dd", _bytes(value)[0])) for key, value in record.headers[:_HEADERS]]
    return el("dl", rows, class_="pairs headers")


def _name(name: str | bytes) -> str:
    """The name of a header, or its bytes with two digits each if it is not text."""
    return name[:200] if isinstance(name, str) else name[:60].hex(" ")


def _bytes(value: bytes | None) -> tuple[str, str]:
    """Bytes as people read them, and what is to be said of that: JSON, text, or two digits for each byte."""
    if value is None:
        return "none", ""
    cut = len(value) > _SHOWN
    said = f"{figures.size(len(value))}, of which {figures.size(_SHOWN)} are shown" if cut else ""
    try:
        text = value[:_SHOWN].decode("utf-8", errors="ignore" if cut else "strict")
    except UnicodeDecodeError:
        return _hex(value[:1024]), said or f"{figures.size(len(value))}, not text"
    if not _readable(text):
        return _hex(value[:1024]), said or f"{figures.size(len(value))}, not text"
    return (text if cut else _pretty(text)), said


def _readable(text: str) -> bool:
    return all(letter.isprintable() or letter in "\n\r\t" for letter in text)


def _pretty(text: str) -> str:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _hex(value: bytes) -> str:
    lines = (value[at : at + 16] for at in range(0, len(value), 16))
    return "\n".join(f"{place * 16:04x}  {line.hex(' ')}" for place, line in enumerate(lines))
