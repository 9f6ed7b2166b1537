"""The tokens of OAUTHBEARER that a listener is shown: whose they are, by its rules and the keys that are known."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from actors.broker.entrance.token_keys import KeySource
from actors.broker.spec import StartError
from actors.security.oauth import Bearer, TokenError, TokenRules, UnknownKeyError, check_token
from actors.settings import ListenerConfig

log = logging.getLogger(__name__)

_WAITING_MAX: Final = 64


def rules_of(config: ListenerConfig) -> TokenRules:
    """The rules for tokens that the settings of a listener's OAUTHBEARER give."""
    return TokenRules(
        config.text("sasl.oauthbearer.expected.issuer"),
        config.items_of("sasl.oauthbearer.expected.audience"),
        config.text("sasl.oauthbearer.sub.claim.name") or "sub",
        config.integer("sasl.oauthbearer.clock.skew.seconds"),
    )


class Tokens:
    """Judges tokens. One whose key is not known waits for the keys to be read, if that may be; 64 wait at most."""

    def __init__(self, rules: TokenRules, source: KeySource, wall_ms: Callable[[], int]) -> None:
        self._rules = rules
        self.source = source
        """The keys by which they are judged."""
        self._wall_ms = wall_ms
        self.waiting: set[asyncio.Task[None]] = set()
        """The tokens whose keys are being looked for."""

    async def open(self, listener: str) -> None:
        """Have the keys. Raises StartError."""
        if find_spec("cryptography") is None:
            raise StartError(
                f"listener {listener} takes tokens, for which a package is not installed: pip install 'coterie[tls]'"
            )
        await self.source.open()

    def judge(self, token: str, done: Callable[[Bearer | TokenError | None], None]) -> None:
        """`done` gets whose the token is or why it is not valid, perhaps at once; None after a fault of ours."""
        found = self._judged(token)
        if not isinstance(found, UnknownKeyError) or len(self.waiting) >= _WAITING_MAX:
            done(found)
            return
        task = asyncio.get_running_loop().create_task(self._judge_again(token, done))
        self.waiting.add(task)
        task.add_done_callback(self.waiting.discard)

    async def _judge_again(self, token: str, done: Callable[[Bearer | TokenError | None], None]) -> None:
        await self.source.look_for_unknown()
        done(self._judged(token))

    def _judged(self, token: str) -> Bearer | TokenError | None:
        try:
            return check_token(token, self.source.keys, self._rules, self._wall_ms() / 1000)
        except TokenError as error:
            return error
        except Exception:  # a bug that anybody can reach: this login fails, and no more
            log.exception("a token could not be judged")
            return None

    def close(self) -> None:
        """Judge no more."""
        self.source.close()
        for task in self.waiting:
            task.cancel()


class NoTokens:
    """A listener without OAUTHBEARER. It is shown no token; one that came would be a fault of ours."""

    async def open(self, listener: str) -> None: ...

    def judge(self, token: str, done: Callable[[Bearer | TokenError | None], None]) -> None:
        done(None)

    def close(self) -> None: ...
