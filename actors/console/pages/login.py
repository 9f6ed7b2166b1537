"""The login, and what is said when something cannot be shown."""

from __future__ import annotations

from actors.console.html import Html, el


def form(token: str, wanted: str, problem: str) -> Html:
    """The form of a login. `wanted` is where it leads to."""
    said = el("div", el("p", problem), class_="alert bad", role="alert") if problem else None
    return el(
        "form",
        el("h1", "Coterie"),
        el("p", "Log in as a user of the cluster. The brokers check your password.", class_="note"),
        said,
        el("input", type="hidden", name="token", value=token),
        el("input", type="hidden", name="next", value=wanted),
        el(
            "label",
            el("span", "User"),
            el("input", name="user", autocomplete="username", required=True, autofocus=True),
        ),
        el(
            "label",
            el("span", "Password"),
            el("input", name="password", type="password", autocomplete="current-password", required=True),
        ),
        el("button", "Log in", type="submit"),
        method="post",
        action="/login",
        class_="login",
    )


def problem(text: str) -> Html:
    """A page that says what cannot be shown, and why."""
    back = el("p", el("a", "To the cluster", href="/", class_="button"))
    return el("div", el("h1", "Sorry"), el("p", text), back, class_="login")
