"""The frame of all pages: head, menu, what is open for help, and where regions stand."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from actors.console.html import Child, Html, Value, el, join
from actors.console.pages.page import Page, Series

_DOCTYPE: Final = Html("<!doctype html>")
_MENU: Final = (("cluster", "/", "Cluster"), ("groups", "/groups", "Groups"), ("topics", "/topics", "Topics"))
_KEYS: Final = (
    ("/", "search the list"),
    ("j, k", "next row, row before"),
    ("Enter", "open it"),
    ("g c, g g, g t", "cluster, groups, topics"),
    ("t", "light or dark"),
    ("?", "this help"),
    ("Esc", "close it, leave a field"),
)


@dataclass(frozen=True, slots=True)
class Frame:
    """The content of the frame, whichever page is in it."""

    statics: Mapping[str, str]
    """The address of each file of ours, by its name."""
    address: str = "/"
    """Of the page, with its query."""
    user: str | None = None
    writes: bool = False
    token: str = ""


def document(page: Page, frame: Frame) -> Html:
    """The whole page."""
    regions = [el("div", region.html, id=region.name, class_="region") for region in page.regions]
    main = el("main", *regions, id="main", tabindex="-1")
    live: dict[str, Value] = {"data_live": _live(page, frame), "data_look": page.wall_ms} if page.live else {}
    body = el("body", _bar(page, frame), main, _data(page.series), _help(), **live)
    head = _head(page.title, frame, chart=page.series is not None)
    return join(_DOCTYPE, el("html", head, body, lang="en"))


def _live(page: Page, frame: Frame) -> str:
    """The address that changes of the page come from."""
    mark = "&" if "?" in frame.address else "?"
    return f"/live{frame.address}{mark}{page.pinned}" if page.pinned else f"/live{frame.address}"


def plain(title: str, content: Child, frame: Frame) -> Html:
    """A page without a menu: the login, and errors."""
    body = el("body", el("main", content, id="main", class_="alone"))
    return join(_DOCTYPE, el("html", _head(title, frame, chart=False), body, lang="en"))


def _head(title: str, frame: Frame, *, chart: bool) -> Html:
    files = frame.statics
    return el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="color-scheme", content="light dark"),
        el("title", f"{title} · Coterie"),
        el("link", rel="icon", href=files["icon.svg"], type="image/svg+xml"),
        el("link", rel="preload", href=files["inter.woff2"], as_="font", type="font/woff2", crossorigin=True),
        el("link", rel="stylesheet", href=files["uPlot.min.css"]) if chart else None,
        el("link", rel="stylesheet", href=files["console.css"]),
        el("script", src=files["theme.js"]),
        el("script", src=files["uPlot.iife.min.js"], defer=True) if chart else None,
        el("script", src=files["console.js"], type="module"),
    )


def _bar(page: Page, frame: Frame) -> Html:
    skip = el("a", "Skip to content", href="#main", class_="skip")
    brand = el("a", _mark(), el("span", "Coterie"), href="/", class_="brand")
    menu = [
        el("a", name, href=address, aria_current="page" if key == page.here else None, data_menu=key)
        for key, address, name in _MENU
    ]
    pulse = el("span", el("i"), el("span", "live", id="pulse-text"), id="pulse", role="status", title="How old this is")
    theme = el("button", _half(), type="button", id="theme", aria_label="Light or dark", title="Light or dark (t)")
    keys = el("button", "?", type="button", id="keys", aria_label="Keys", title="Keys (?)")
    tools = el("div", pulse if page.live else None, theme, keys, _leave(frame), class_="tools")
    return el("header", skip, brand, el("nav", menu, aria_label="Main"), tools, class_="top")


def _leave(frame: Frame) -> Html | None:
    if frame.user is None:
        return None
    token = el("input", type="hidden", name="token", value=frame.token)
    button = el("button", "Log out", type="submit")
    return el("form", el("span", frame.user, class_="user"), token, button, method="post", action="/logout")


def _mark() -> Html:
    """Three that share a whole: the mark of the product."""
    arcs = (
        el("path", d="M12 3a9 9 0 0 1 7.8 4.5L12 12Z", class_="a"),
        el("path", d="M20.6 9.3A9 9 0 0 1 12 21v-9Z", class_="b"),
        el("path", d="M10 20.8A9 9 0 0 1 9.3 3.4L10 12Z", class_="c"),
    )
    return el("svg", *arcs, viewBox="0 0 24 24", class_="mark", aria_hidden="true")


def _half() -> Html:
    shapes = (el("circle", cx=12, cy=12, r=8, class_="ring"), el("path", d="M12 4a8 8 0 0 1 0 16Z"))
    return el("svg", *shapes, viewBox="0 0 24 24", aria_hidden="true")


def _help() -> Html:
    rows = [el("tr", el("td", _kbd(keys)), el("td", what)) for keys, what in _KEYS]
    close = el("form", el("button", "Close", type="submit"), method="dialog")
    return el("dialog", el("h2", "Keys"), el("table", el("tbody", rows)), close, id="help", aria_label="Keys")


def _kbd(keys: str) -> Html:
    return join([join(", " if place else "", el("kbd", key)) for place, key in enumerate(keys.split(", "))])


def _data(series: Series | None) -> Html | None:
    if series is None:
        return None
    return el("script", Html(as_json(series).replace("<", "\\u003c")), type="application/json", id="series")


def as_json(series: Series) -> str:
    """Series as the script of the charts reads them."""
    window = series.window
    found = {
        "times": series.times_ms,
        "values": dict(series.values),
        "marks": series.marks,
        "window": (window.since_ms, window.until_ms),
        "axis": window.marks(),
    }
    return json.dumps(found, separators=(",", ":"))
