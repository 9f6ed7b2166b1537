"""An entrance of the console that asks no broker."""

from __future__ import annotations

from actors.console.entrance import EntranceError
from actors.console.rights import Entitled
from actors.console.sessions import Visitor
from actors.runtime.environment import REAL, Clock
from actors.settings.secret import Secret
from tests.support.synthetic_desk import SyntheticDesk
from tests.support.synthetic_source import SyntheticSource


class Users:
    """Every name is a user's, and the password is `good`."""

    anybody = None

    def __init__(self, source: SyntheticSource, desk: SyntheticDesk | None = None, clock: Clock = REAL.clock) -> None:
        self.source = source
        self.desk = desk or SyntheticDesk()
        self.clock = clock
        self.tried: list[str] = []

    async def log_in(self, user: str, password: Secret) -> Visitor:
        self.tried.append(user)
        if password.reveal() != "good":
            raise EntranceError("The name or the password is wrong.")
        return Visitor(user, Entitled(self.source, self.desk, self.clock), self.desk)
