"""Links that lose messages, deliver them twice, late and in any order, and are cut in one direction."""

from __future__ import annotations

from collections.abc import Callable

from actors.quorum.effects import Send
from actors.quorum.log import VoterId
from actors.quorum.messages import Message
from tests.sim.quorum.world import World

Deliver = Callable[[VoterId, VoterId, Message], None]


class Network:
    def __init__(self, world: World) -> None:
        self._world = world
        self._receivers: dict[int, Deliver] = {}
        self._cut: dict[tuple[int, int], int] = {}
        self.sound = False
        """True once no message is lost, doubled or late any more, and only later cuts hold."""

    def join(self, node: int, deliver: Deliver) -> None:
        self._receivers[node] = deliver

    def cut(self, pairs: list[tuple[int, int]], for_s: float) -> None:
        """Deliver nothing from the first to the second of each pair."""
        for pair in pairs:
            self._cut[pair] = self._cut.get(pair, 0) + 1
        self._world.after(for_s, lambda: self._mend(pairs))

    def _mend(self, pairs: list[tuple[int, int]]) -> None:
        for pair in pairs:
            if pair in self._cut:
                self._cut[pair] -= 1
                if not self._cut[pair]:
                    del self._cut[pair]

    def heal(self) -> None:
        self._cut.clear()
        self.sound = True

    def send(self, sender: VoterId, send: Send) -> None:
        world, scenario, pair = self._world, self._world.scenario, (sender.id, send.to.id)
        world.note("messages")
        if send.to.id not in self._receivers:
            return
        copies = 1
        if not self.sound:
            chance = world.random.random()
            copies = 0 if chance < scenario.lost else 2 if chance < 2 * scenario.lost else 1
        for _ in range(copies):
            world.after(self._delay(), lambda: self._arrive(pair, sender, send))

    def _delay(self) -> float:
        random, scenario = self._world.random, self._world.scenario
        if not self.sound and random.random() < scenario.straggling:
            return random.uniform(0, 4)
        return random.uniform(0.0005, 0.005 if self.sound else scenario.delay_s)

    def _arrive(self, pair: tuple[int, int], sender: VoterId, send: Send) -> None:
        if pair not in self._cut:
            self._receivers[send.to.id](sender, send.to, send.message)
