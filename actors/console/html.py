"""HTML as values: an element escapes every text in it, and only elements are taken as they are.

A name of an attribute loses a trailing underscore, and has hyphens for others: `el("a", "x", class_="b", data_row=1)`.
An attribute that is None or False is left out; one that is True has no value. SVG is made in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final, Union

_VOID: Final = frozenset({"input", "meta", "link", "br", "hr", "img"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


Child = Union[str, int, float, None, Iterable["Child"]]  # noqa: UP007 - it names itself
Value = Union[str, int, float, bool, None]  # noqa: UP007


def el(tag: str, /, *children: Child, **attributes: Value) -> Html:
    """An element."""
    head = tag + "".join(_attribute(key, value) for key, value in attributes.items())
    if tag in _VOID:
        return Html(f"<{head}>")
    return Html(f"<{head}>{join(*children)}</{tag}>")


def join(*children: Child) -> Html:
    """Texts and elements one after the other. None is nothing."""
    return Html("".join(map(_text, children)))


def _text(child: Child) -> str:
    if isinstance(child, Html):
        return child
    if child is None:
        return ""
    if isinstance(child, str):
        return escape(child)
    if isinstance(child, int | float):
        return str(child)
    return "".join(map(_text, child))


def _attribute(key: str, value: Value) -> str:
    if value is None or value is False:
        return ""
    name = key.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escape(str(value))}"'
