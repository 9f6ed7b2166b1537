"""The visitors that have logged in, and the tokens of forms: in memory, bounded, and gone with the process."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from actors.console.desk import Desk, Preview
from actors.console.source import Source
from actors.runtime.environment import Environment

_IDLE_S: Final = 30 * 60.0
_LENGTH_S: Final = 12 * 3600.0
_SESSIONS: Final = 100
"""Of users. Each has connections of its own."""
_OF_USER: Final = 10
"""Of one user, so that nobody ends the visits of others by logging in."""
_PLANS: Final = 8
_PLAN_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Visitor:
    """One who looks: what he sees, and his own way to the brokers. `user` is None where nobody is asked for a name."""

    user: str | None
    source: Source
    desk: Desk


@dataclass(slots=True)
class Session:
    """A visit. `plans` are previews that may be carried out, for ten minutes."""

    visitor: Visitor
    began: float
    seen: float
    plans: OrderedDict[str, tuple[float, Preview]] = field(default_factory=OrderedDict)

    def keep(self, plan: str, preview: Preview, now: float) -> None:
        """Have a preview carried out later, unless too many come after it."""
        self.plans[plan] = now, preview
        while len(self.plans) > _PLANS:
            self.plans.popitem(last=False)

    def take(self, plan: str, now: float) -> Preview | None:
        """A preview that was kept; it can be taken once."""
        kept, preview = self.plans.pop(plan, (0.0, None))
        return preview if now - kept <= _PLAN_S else None


class Sessions:
    """The visits by their cookies. One that is too old, or unused for too long, is over."""

    def __init__(self, environment: Environment, ended: Callable[[Visitor], Awaitable[None]]) -> None:
        self._clock = environment.clock
        self._chance = environment.chance
        self._ended = ended
        self._found: dict[str, Session] = {}

    async def begin(self, visitor: Visitor) -> str:
        """Let somebody in, and return his cookie. Of too many visits the longest idle one goes, first of the user's."""
        await self.sweep()
        while len(own := [each for each in self._found if self._found[each].visitor.user == visitor.user]) >= _OF_USER:
            await self.end(min(own, key=self._seen))
        while len(self._found) >= _SESSIONS:
            await self.end(min(self._found, key=self._seen))
        cookie, now = new_cookie(self._chance.randbytes(32)), self._clock.monotonic()
        self._found[cookie] = Session(visitor, now, now)
        return cookie

    def _seen(self, cookie: str) -> float:
        return self._found[cookie].seen

    def find(self, cookie: str, *, touch: bool = True) -> Session | None:
        """The visit of a cookie. A request that runs by itself does not `touch` it: a stream keeps nobody logged in."""
        session = self._found.get(cookie)
        if session is None or self._is_over(session):
            return None
        if touch:
            session.seen = self._clock.monotonic()
        return session

    async def sweep(self) -> None:
        """End what is over."""
        for cookie in [cookie for cookie, session in self._found.items() if self._is_over(session)]:
            await self.end(cookie)

    async def end(self, cookie: str) -> None:
        """End a visit, if there is one."""
        session = self._found.pop(cookie, None)
        if session is not None:
            await self._ended(session.visitor)

    async def close(self) -> None:
        """End all visits."""
        for cookie in list(self._found):
            await self.end(cookie)

    def _is_over(self, session: Session) -> bool:
        now = self._clock.monotonic()
        return now - session.seen > _IDLE_S or now - session.began > _LENGTH_S


def new_cookie(randomness: bytes) -> str:
    """A name that cannot be guessed, as text."""
    return base64.urlsafe_b64encode(randomness).decode().rstrip("=")


class Tokens:
    """Tokens of forms. Each belongs to one cookie, and looks different each time, so that compression betrays none."""

    def __init__(self, environment: Environment) -> None:
        self._chance = environment.chance
        self._key = environment.chance.randbytes(32)

    def make(self, cookie: str) -> str:
        """A token for a form."""
        salt = self._chance.randbytes(16)
        return new_cookie(salt) + "." + self._proof(cookie, new_cookie(salt))

    def is_good(self, cookie: str, token: str) -> bool:
        """True if a token was made for this cookie."""
        salt, separator, proof = token.partition(".")
        return bool(cookie and separator) and hmac.compare_digest(proof.encode(), self._proof(cookie, salt).encode())

    def _proof(self, cookie: str, salt: str) -> str:
        return new_cookie(hmac.digest(self._key, f"{salt}:{cookie}".encode(), hashlib.sha256))
