"""The console as a Starlette app: its routes and their answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from actors.console.desk import DeskError, LoggedOutError
from actors.console.entrance import Entrance, EntranceError, leave
from actors.console.guard import Guard
from actors.console.live import events
from actors.console.pages import cluster, group, groups, login, records, reset, topics
from actors.console.pages.document import Frame, document, plain
from actors.console.pages.page import Asked, Page, to
from actors.console.sessions import Session, Sessions, Tokens, Visitor, new_cookie
from actors.console.source import SourceError, VisitOverError
from actors.console.statics import Statics
from actors.console.tries import Tries
from actors.runtime.environment import REAL, Environment
from actors.settings.secret import Secret
from actors.web.proxies import Proxies

Maker = Callable[[Asked], Awaitable[Page]]

PAGES: Final[Mapping[str, Maker]] = {
    "/": cluster.page,
    "/groups": groups.page,
    "/group": group.page,
    "/topics": topics.page,
    "/topic": topics.topic,
    "/records": records.page,
}
_FORM_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Options:
    """The settings by which a console is served. Units are in the names."""

    writes: bool = False
    """True if it may change anything."""
    names: tuple[str, ...] = ()
    """The names that it may be called, beside localhost and addresses."""
    encrypted: bool = False
    port: int = 0
    """A cookie is sent to all ports of a host, so its name has ours."""
    interval_s: float = 2.0
    """Between two looks of an open page."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies before it, which say for whom they ask."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits before a login that comes after failed ones."""


def make_app(entrance: Entrance, options: Options = Options(), environment: Environment = REAL) -> Starlette:
    """The app, for one cluster."""
    console = Console(entrance, options, environment)
    routes = [Route(path, console.shown(path, maker)) for path, maker in PAGES.items()]
    routes += [Route(f"/live{path}", console.streamed(path, maker)) for path, maker in PAGES.items()]
    routes += [
        Route("/login", console.login, methods=["GET", "POST"]),
        Route("/logout", console.logout, methods=["POST"]),
        Route("/static/{version}/{name}", console.statics.answer),
    ]
    if options.writes:
        routes.append(Route("/group/reset", console.reset, methods=["GET", "POST"]))

    middleware = [
        Middleware(Guard, names=options.names),
        Middleware(GZipMiddleware, minimum_size=1000, compresslevel=5),
    ]
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={404: console.not_found, SourceError: console.unknown, DeskError: console.unknown}
        | dict.fromkeys((VisitOverError, LoggedOutError), console.over),
    )
    app.state.closing, app.state.close = console.closing, console.close
    return app


class Console:
    """The handlers of the routes."""

    def __init__(self, entrance: Entrance, options: Options, environment: Environment) -> None:
        self._entrance = entrance
        self._options = options
        self._environment = environment
        self._cookie = f"coterie-console-{options.port}"
        self._sessions = Sessions(environment, leave)
        self._tokens = Tokens(environment)
        self._tries = Tries(environment)
        self._proxies = Proxies(options.proxies)
        self._guest = self._guest_session(entrance.anybody)
        self.statics = Statics()
        self.closing = asyncio.Event()
        """Set when streams are to end."""

    def _guest_session(self, visitor: Visitor | None) -> Session | None:
        now = self._environment.clock.monotonic()
        return None if visitor is None else Session(visitor, now, now)

    async def close(self) -> None:
        """End all visits."""
        await self._sessions.close()
        if self._guest is not None:
            await leave(self._guest.visitor)

    # --- pages ------------------------------------------------------------------------------------------------------

    def shown(self, path: str, maker: Maker) -> Callable[[Request], Awaitable[Response]]:
        """A page: the whole, or only its regions as JSON where a script asks for them."""

        async def answer(request: Request) -> Response:
            session = self._session(request)
            if session is None:
                return self._to_login(request)
            page = await maker(self._asked(request, session, path))
            if request.headers.get("x-regions"):
                found = {"look": page.wall_ms, "regions": {each.name: each.html for each in page.regions}}
                return Response(json.dumps(found), media_type="application/json")
            return self._sent(page, request, session)

        return answer

    def streamed(self, path: str, maker: Maker) -> Callable[[Request], Awaitable[Response]]:
        """The changes of a page, as server-sent events."""

        async def answer(request: Request) -> Response:
            session = self._session(request, touch=False)
            if session is None:
                return Response(status_code=204)  # tells the browser not to ask again
            asked = self._asked(request, session, path)

            async def make() -> Page | None:
                if self._session(request, touch=False) is not session:
                    return None
                try:
                    return await maker(asked)
                except VisitOverError:
                    await self._sessions.end(request.cookies.get(self._cookie, ""))
                    return None

            since = asked.number("look")
            stream = events(make, self._options.interval_s, since, self.closing)
            return StreamingResponse(stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

        return answer

    async def reset(self, request: Request) -> Response:
        """A reset: the form with its preview, and what is done when it is sent."""
        session = self._session(request)
        if session is None:
            return self._to_login(request)
        if request.method == "POST":
            return await self._carry_out(request, session)
        clock = self._environment.clock
        plan = new_cookie(self._environment.chance.randbytes(18))
        page, preview = await reset.page(self._asked(request, session, "/group/reset", plan))
        if preview is not None and not preview.refusal:
            session.keep(plan, preview, clock.monotonic())
        return self._sent(page, request, session)

    async def _carry_out(self, request: Request, session: Session) -> Response:
        form = await _form(request)
        if not self._tokens.is_good(request.cookies.get(self._cookie, ""), form.get("token", "")):
            return self._stale()
        preview = session.take(form.get("plan", ""), self._environment.clock.monotonic())
        if preview is None or preview.wish.group_id != form.get("id"):
            text = "This preview is too old, or was carried out already."
            return self._sent(reset.failed(form.get("id", ""), text), request, session)
        group_id = preview.wish.group_id
        try:
            await session.visitor.desk.reset(group_id, preview.offsets)
        except DeskError as error:
            return self._sent(reset.failed(group_id, str(error)), request, session)
        asked = self._asked(request, session, "/group/reset")
        return self._sent(reset.done(asked, group_id, preview.offsets), request, session)

    def _asked(self, request: Request, session: Session, path: str, plan: str = "") -> Asked:
        query = {
            key: value for key, value in request.query_params.items() if key != "look" or "/live" in request.url.path
        }
        return Asked(
            session.visitor.source,
            session.visitor.desk,
            path,
            query,
            writes=self._options.writes,
            now_ms=self._environment.clock.wall_ms(),
            token=self._tokens.make(request.cookies.get(self._cookie, "")) if plan else "",
            plan=plan,
        )

    def _sent(self, page: Page, request: Request, session: Session) -> Response:
        return self._with_cookie(HTMLResponse(document(page, self._frame(request, session)), page.status), request)

    def _frame(self, request: Request, session: Session) -> Frame:
        cookie = request.cookies.get(self._cookie, "")
        user = session.visitor.user
        return Frame(
            self.statics.addresses,
            request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            user,
            self._options.writes,
            self._tokens.make(cookie) if user is not None else "",
        )

    # --- who asks ---------------------------------------------------------------------------------------------------

    def _session(self, request: Request, *, touch: bool = True) -> Session | None:
        if self._guest is not None:
            return self._guest
        return self._sessions.find(request.cookies.get(self._cookie, ""), touch=touch)

    def _to_login(self, request: Request) -> Response:
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(to("/login", next=wanted if wanted != "/" else ""), status_code=303)

    async def login(self, request: Request) -> Response:
        """The login: its form, and what comes of it."""
        await self._sessions.sweep()
        if self._guest is not None:
            return RedirectResponse("/", status_code=303)
        if request.method != "POST":
            return self._login_form(request, request.query_params.get("next", ""))
        form = await _form(request)
        user, wanted = form.get("user", ""), form.get("next", "")
        if not self._tokens.is_good(request.cookies.get(self._cookie, ""), form.get("token", "")):
            return self._login_form(request, wanted, "This form was too old. Please try again.", 403)
        address = self._address(request)
        wait_s = self._tries.begins(address, user)
        if wait_s is None:
            return self._login_form(request, wanted, "Too many logins from your address. Try again in a minute.", 429)
        visitor = None
        try:
            await self._options.pause(wait_s)
            visitor = await self._entrance.log_in(user, Secret(form.get("password", "")))
        except EntranceError as error:
            return self._login_form(request, wanted, str(error), 403)
        finally:
            self._tries.ended(address, user, succeeded=visitor is not None)
        await self._sessions.end(request.cookies.get(self._cookie, ""))
        answer = RedirectResponse(wanted if _is_here(wanted) else "/", status_code=303)
        return self._set(answer, await self._sessions.begin(visitor))

    def _address(self, request: Request) -> str:
        peer = request.client.host if request.client is not None else ""
        return self._proxies.behind(peer, request.headers.getlist("x-forwarded-for"))

    def _login_form(self, request: Request, wanted: str, problem: str = "", status: int = 200) -> Response:
        cookie = request.cookies.get(self._cookie) or new_cookie(self._environment.chance.randbytes(32))
        content = login.form(self._tokens.make(cookie), wanted, problem)
        return self._set(HTMLResponse(plain("Log in", content, Frame(self.statics.addresses)), status), cookie)

    async def logout(self, request: Request) -> Response:
        """End the visit."""
        cookie = request.cookies.get(self._cookie, "")
        form = await _form(request)
        session = self._session(request)
        if session is not None and not self._tokens.is_good(cookie, form.get("token", "")):
            return self._stale()
        await self._sessions.end(cookie)
        answer = RedirectResponse("/login", status_code=303)
        answer.delete_cookie(self._cookie)
        return answer

    def _with_cookie(self, answer: Response, request: Request) -> Response:
        """Give everybody a cookie, to which the tokens of forms belong; where there are logins, he has one already."""
        if self._guest is None or request.cookies.get(self._cookie):
            return answer
        return self._set(answer, new_cookie(self._environment.chance.randbytes(32)))

    def _set(self, answer: Response, cookie: str) -> Response:
        answer.set_cookie(self._cookie, cookie, httponly=True, samesite="strict", secure=self._options.encrypted)
        return answer

    # --- what cannot be answered ------------------------------------------------------------------------------------

    def _stale(self) -> Response:
        return self._problem("This form was too old, or not ours. Nothing was changed.", 403)

    async def not_found(self, request: Request, error: Exception) -> Response:
        """There is no such page."""
        return self._problem("There is no such page.", 404)

    async def over(self, request: Request, error: Exception) -> Response:
        """The brokers do not know the visitor any more. He may log in anew."""
        await self._sessions.end(request.cookies.get(self._cookie, ""))
        return self._to_login(request) if self._guest is None else await self.unknown(request, error)

    async def unknown(self, request: Request, error: Exception) -> Response:
        """The cluster could not be asked. The browser tries again by itself."""
        answer = self._problem(str(error), 503)
        answer.headers["Refresh"] = "3"
        return answer

    def _problem(self, text: str, status: int) -> Response:
        return HTMLResponse(plain("Sorry", login.problem(text), Frame(self.statics.addresses)), status)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form. One that is too large, of another kind, or broken off, has none."""
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        return {}
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > _FORM_BYTES:
                return {}
    except ClientDisconnect:
        return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _is_here(address: str) -> bool:
    """True if an address is one of our pages, and of nobody else's site."""
    path, _, _ = address.partition("?")
    return path in PAGES or path == "/group/reset"
