"""Asks shards that nobody has asked anything for a while, by the rule of their kind, whether they may sleep.

A shard says what it is busy with, or what has to be known of it while it sleeps. The answer counts only if the shard
has been sent neither a request nor news of the topics since it was asked: these may reach it after it has answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from actors.broker.coordinators.link import LinkState, ShardLink
from actors.coordinator.groups.messages import MaySleepResponse
from actors.links.relay import PAYLOADS, Kind
from actors.settings import BrokerConfig


class Idling:
    """`sleeps` is called for a shard that may sleep, with what it has said. `setting` says when a shard is idle."""

    def __init__(
        self,
        config: BrokerConfig,
        setting: str,
        number: Callable[[], int],
        sleeps: Callable[[ShardLink, MaySleepResponse], None],
    ) -> None:
        self._setting = setting
        self._idle_s = config.integer(setting) / 1000
        self._number = number
        self._sleeps = sleeps

    def tick(self, links: Iterable[ShardLink], now: float) -> None:
        """To be called once in a while with the shards that have partitions: ask those that are idle."""
        for link in links:
            if link.state is not LinkState.ACTIVE:
                continue
            idle = link.idle
            if link.sent != idle.sent:
                idle.sent, idle.since, idle.ask_at, idle.busy = link.sent, now, now + self._idle_s, ""
            elif self._idle_s > 0 and now >= idle.ask_at and not link.pending:
                link.doze(self._number())
                link.protocol.send(Kind.MAY_SLEEP, link.partition, idle.question)

    def topics_changed(self, links: Iterable[ShardLink]) -> None:
        """Shards have been told of other topics: answers from before do not count."""
        for link in links:
            if link.state is LinkState.DROWSY:
                link.rouse()

    def answered(self, link: ShardLink, partition: int, question: int, payload: bytes) -> None:
        """A shard has answered."""
        if link.state is not LinkState.DROWSY or (partition, question) != (link.partition, link.idle.question):
            return
        answer = PAYLOADS.read(MaySleepResponse, payload)
        link.rouse()
        if answer.busy:
            link.idle.busy = answer.busy
            link.idle.ask_at += self._idle_s
        elif not link.pending and link.sent == link.idle.sent:
            self._sleeps(link, answer)

    def why_awake(self, link: ShardLink, now: float) -> str:
        """For people: what keeps a shard awake; empty while it loads."""
        if not link.active:
            return ""
        if self._idle_s <= 0:
            return f"{self._setting} is 0"
        if link.idle.busy:
            return link.idle.busy
        return f"asked {max(now - link.idle.since, 0):.0f} s ago" if link.idle.since else ""
