"""Before a broker stops: others lead what it leads."""

from __future__ import annotations

import asyncio

from actors.broker.contact import Contact
from actors.broker.replication import ReplicaManager
from actors.links.operations import BrokerLeaving

_HAND_OVER_SECONDS = 10.0
_LEFT_SECONDS = 30.0


class Leaving:
    """Hands over what this broker leads, by the controller."""

    def __init__(
        self, broker_id: int, contact: Contact, replicas: ReplicaManager, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._broker_id = broker_id
        self._contact = contact
        self._replicas = replicas
        self._loop = loop

    async def hand_over(self, answer_s: float = _HAND_OVER_SECONDS, stop_s: float = _LEFT_SECONDS) -> None:
        """Before a stop: have others lead what this broker leads, and leave the in-sync sets.

        If it is not stopped within `stop_s`, it follows again. Raises OSError, and TimeoutError if the controller does
        not answer within `answer_s`. Then this broker goes on as before.
        """
        self._replicas.stop_following()  # first, or a leader that hears from this broker proposes it again
        try:
            await self._leave(answer_s)
        except BaseException:  # cancelled, too: it is not stopped, so it has to get in sync again
            self._replicas.follow_again()
            raise
        self._loop.call_later(stop_s, self._replicas.follow_again)

    async def _leave(self, answer_s: float) -> None:
        left: asyncio.Future[str | None] = self._loop.create_future()
        self._contact.link.call(
            BrokerLeaving(self._broker_id),
            lambda result, error: None if left.done() else left.set_result(error),
        )
        error = await asyncio.wait_for(left, answer_s)
        if error is not None:
            raise ConnectionError(f"broker {self._broker_id} could not hand over what it leads: {error}")
