"""The conditions for requests to be let in at all, whoever they are from, and the headers of all answers.

The name by which we are called must be ours (`web/hosts`). A request that changes something must come from a page of
ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.web.hosts import OurNames

_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, browsers would send our own forms with the origin `null`
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_HARMLESS: Final = ("GET", "HEAD")
_METHODS: Final = (*_HARMLESS, "POST")


class Guard:
    """Lets requests through to `app`. `names` are what we may be called, beside localhost and addresses."""

    def __init__(self, app: ASGIApp, names: Iterable[str] = ()) -> None:
        self._app = app
        self._names = OurNames(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, answer)
        else:
            await PlainTextResponse(refusal[1], status_code=refusal[0])(scope, receive, answer)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if not self._names.has(hosts):
            return 421, "this console is not called that: use localhost, its address, or a name of --allow-host\n"
        if scope["method"] not in _METHODS:
            return 405, "only GET and POST are answered\n"
        if scope["method"] not in _HARMLESS and not _is_from_us(headers, scope["scheme"], hosts[0]):
            return 403, "this did not come from a page of the console\n"
        return None


def _is_from_us(headers: Headers, scheme: str, host: str) -> bool:
    origin = headers.get("origin")
    if origin is not None:
        return origin.lower() == f"{scheme}://{host}".lower()
    return headers.get("sec-fetch-site", "same-origin") == "same-origin"
