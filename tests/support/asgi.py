"""Requests to an ASGI app without a socket: as a browser would send them, cookies included."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from starlette.types import ASGIApp, Message, Scope


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        packed = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.body) if packed else self.body).decode()


@dataclass
class Browser:
    """Keeps cookies. `host` is the app's name in its requests, `address` its own address."""

    app: ASGIApp
    host: str = "localhost:9080"
    cookies: dict[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    stays: bool = False
    """True if it reads to the end; else it hangs up when it has sent its request."""

    async def get(self, address: str, **headers: str) -> Answer:
        return await self._ask("GET", address, headers, b"")

    async def post(self, address: str, form: dict[str, str], **headers: str) -> Answer:
        typed = {"content_type": "application/x-www-form-urlencoded", "origin": f"http://{self.host}", **headers}
        return await self._ask("POST", address, typed, urlencode(form).encode())

    async def ask(self, method: str, address: str, **headers: str) -> Answer:
        return await self._ask(method, address, headers, b"")

    async def _ask(self, method: str, address: str, headers: dict[str, str], body: bytes) -> Answer:
        url = urlsplit(address)
        sent = {"host": self.host, **{key.replace("_", "-"): value for key, value in headers.items()}}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{key}={value}" for key, value in self.cookies.items())
        scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": url.path,
            "raw_path": url.path.encode(),
            "query_string": url.query.encode(),
            "root_path": "",
            "headers": [(key.encode(), value.encode()) for key, value in sent.items() if value],
            "server": ("127.0.0.1", 9080),
            "client": (self.address, 50000),
        }
        messages: list[Message] = []
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if self.stays and not waiting:
                await asyncio.Event().wait()
            return waiting.pop(0) if waiting else {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            messages.append(message)

        await self.app(scope, receive, send)
        return self._answer(messages)

    def _answer(self, messages: list[Message]) -> Answer:
        found: dict[str, str] = {}
        for key, value in messages[0]["headers"]:
            if key == b"set-cookie":
                name, _, rest = value.decode().partition("=")
                self.cookies[name] = rest.partition(";")[0].strip('"')
            found[key.decode()] = value.decode()
        return Answer(messages[0]["status"], found, b"".join(each.get("body", b"") for each in messages[1:]))
