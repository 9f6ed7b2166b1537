"""A reset of a group's offsets: the form, the preview, and the result."""

from __future__ import annotations

from typing import Final, get_args

from actors.client.records import TopicPartition
from actors.console import figures
from actors.console.desk import Aim, DeskError, Preview, Wish
from actors.console.html import Child, Html, el
from actors.console.pages import parts
from actors.console.pages.page import Asked, Page, Region, to
from actors.links.views import GetGroup, GroupRow

_AIMS: Final[dict[Aim, tuple[str, str]]] = {
    "earliest": ("Everything that is still there", ""),
    "latest": ("Only what comes from now on", ""),
    "duration": ("What came in the last\u2026", "PT1H, P7D or 90m"),
    "time": ("From a moment on", "2026-01-31T13:45:00 (UTC)"),
    "shift": ("So many records on, or back", "-100"),
    "offset": ("An offset", "4711"),
}
_LINES: Final = 500
"""Of a preview that are shown; all are carried out."""


def wish(asked: Asked, topics: tuple[str, ...]) -> Wish | None:
    """The reset that the query asks for, or None if it asks for nothing yet."""
    aim = next((each for each in get_args(Aim) if each == asked.text("to")), None)
    chosen = tuple(each for each in topics if asked.text(f"topic.{each}"))
    return None if aim is None else Wish(asked.text("id"), chosen, aim, asked.text("value").strip())


async def page(asked: Asked) -> tuple[Page, Preview | None]:
    """The form, and a preview if the query says what is wanted."""
    group_id = asked.text("id")
    found = await asked.source.view(GetGroup(group_id, rebalances=0))
    if found.row is None:
        gone = parts.nothing(f"There is no group {group_id}, or you may not see it.")
        return Page("No such group", "groups", (Region("gone", gone),), live=False, status=404), None
    wanted = wish(asked, found.row.topics)
    shown, preview = None, None
    if wanted is not None:
        try:
            preview = await asked.desk.preview(wanted)
            shown = _preview(preview, asked)
        except DeskError as error:
            shown = el("div", el("p", str(error)), class_="alert bad", role="alert")
    head = _head(group_id)
    regions = (Region("head", head), Region("form", _form(asked, found.row)), Region("preview", el("div", shown)))
    return Page(f"Reset {group_id}", "groups", regions, found.wall_ms, live=False), preview


def done(asked: Asked, group_id: str, offsets: dict[TopicPartition, int]) -> Page:
    """The page after a reset."""
    said = f"{figures.plural(len(offsets), 'offset')} of {group_id} moved."
    good = el("div", el("p", el("b", "Done. "), said), class_="alert good", role="status")
    back = el("p", el("a", "To the group", href=to("/group", id=group_id), class_="button"))
    return Page(
        f"Reset {group_id}",
        "groups",
        (Region("head", _head(group_id)), Region("done", el("div", good, back))),
        live=False,
    )


def failed(group_id: str, text: str, status: int = 409) -> Page:
    """The page that says why a reset was not done."""
    bad = el("div", el("p", el("b", "Not done. "), text), class_="alert bad", role="alert")
    back = el("p", el("a", "Try again", href=to("/group/reset", id=group_id), class_="button"))
    regions = (Region("head", _head(group_id)), Region("failed", el("div", bad, back)))
    return Page(f"Reset {group_id}", "groups", regions, live=False, status=status)


def _head(group_id: str) -> Html:
    up = (el("a", "Groups", href="/groups"), " / ", parts.group_link(group_id))
    return el("div", el("div", el("p", up, class_="crumbs"), el("h1", "Reset offsets of ", group_id)), class_="title")


def _form(asked: Asked, row: GroupRow) -> Html:
    chosen = asked.text("to") or "earliest"
    aims = [
        el(
            "label",
            el("input", type="radio", name="to", value=aim, checked=aim == chosen),
            el("span", name, el("small", hint) if hint else None),
        )
        for aim, (name, hint) in _AIMS.items()
    ]
    some = any(asked.text(f"topic.{each}") for each in row.topics)
    topics = [
        el(
            "label",
            el("input", type="checkbox", name=f"topic.{each}", value="yes", checked=_is_chosen(asked, each, some)),
            el("span", each),
        )
        for each in row.topics[:200]
    ]
    value = el(
        "input",
        type="text",
        name="value",
        value=asked.text("value"),
        placeholder="time, length or number",
        autocomplete="off",
    )
    return el(
        "form",
        el("input", type="hidden", name="id", value=asked.text("id")),
        el("fieldset", el("legend", "Where to"), aims, el("label", el("span", "Value"), value, class_="value")),
        el("fieldset", el("legend", "Which topics"), topics or el("p", "It has no offsets.", class_="note")),
        el("p", el("button", "Preview", type="submit"), el("span", "Nothing is changed yet.", class_="note")),
        action="/group/reset",
        class_="panel reset",
    )


def _is_chosen(asked: Asked, topic: str, some: bool) -> bool:
    return bool(asked.text(f"topic.{topic}")) or not some


def _preview(preview: Preview, asked: Asked) -> Html:
    rows = [_row(partition, preview) for partition in sorted(preview.offsets)[:_LINES]]
    names = ("Partition", "Now", "Then", "Change", "Unread then")
    head = el("tr", [el("th", each, scope="col", class_="" if not place else "n") for place, each in enumerate(names)])
    made = el("table", el("caption", "What would change", class_="unseen"), el("thead", head), el("tbody", rows))
    warnings = [el("div", el("p", each), class_="alert warn") for each in preview.warnings[:20]]
    refusal = el("div", el("p", preview.refusal), class_="alert bad", role="alert") if preview.refusal else None
    more = len(preview.offsets) - _LINES
    rest = el("p", f"and {figures.count(more)} more", class_="note") if more > 0 else None
    go = None if preview.refusal or not preview.offsets else _go(preview, asked)
    body: tuple[Child, ...] = (refusal, warnings, el("div", made, class_="scroll"), rest, go)
    note = "nothing has been changed yet"
    return parts.panel("What would change", *body, note=note)


def _row(partition: TopicPartition, preview: Preview) -> Html:
    now, then = preview.committed.get(partition), preview.offsets[partition]
    change = None if now is None else then - now
    sign = (
        figures.UNKNOWN
        if change is None
        else f"{'+' if change > 0 else ''}{figures.count(change)}".replace("-", "\u2212")
    )
    log = preview.logs.get(partition)
    return el(
        "tr",
        el("td", f"{partition.topic}-{partition.partition}"),
        el("td", figures.count(now), class_="n"),
        el("td", el("b", figures.count(then)), class_="n"),
        el("td", sign, class_="n" if change else "n faint"),
        el("td", figures.count(log.latest - then) if log else figures.UNKNOWN, class_="n"),
    )


def _go(preview: Preview, asked: Asked) -> Html:
    return el(
        "form",
        el("input", type="hidden", name="token", value=asked.token),
        el("input", type="hidden", name="plan", value=asked.plan),
        el("input", type="hidden", name="id", value=preview.wish.group_id),
        el("button", f"Move {figures.plural(len(preview.offsets), 'offset')}", type="submit", class_="danger"),
        el("span", "as shown above", class_="note"),
        method="post",
        action="/group/reset",
        class_="go",
    )
