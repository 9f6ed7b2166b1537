"""The faults: processes die and stop, machines lose power, networks stall and break, clocks jump.

Where the cluster promises to survive the fault of one machine, one at a time fails; all other faults may come together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from actors.controller.active import ActiveController
from actors.controller.metadata.commits import NotControllerError
from actors.links.operations import AlterReassignments, Reassignment
from tests.sim.engine import MS, SECOND, Machine, Process
from tests.sim.scenario import Speaks
from tests.sim.sim_broker import SimBroker
from tests.sim.topics import Topics

if TYPE_CHECKING:
    from tests.sim.run import World

_HOUR_US = 3600 * SECOND


class Faults:
    """A fault now and then, until all is healed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.sim = world.sim
        self.cluster = world.cluster
        self.happened: Counter[str] = Counter()
        self._on = False
        self._kinds: list[Callable[[], bool]] = [
            self.broker_dies,
            self.broker_dies,
            self.everything_dies,
            self.broker_restarts,
            self.broker_stops,
            self.broker_stops,
            self.machine_stops,
            self.shard_dies,
            self.shard_stops,
            self.controller_dies,
            self.controller_stops,
            self.member_dies,
            self.member_dies,
            self.member_stops,
            self.member_leaves,
            self.partition,
            self.partition,
            self.controller_out_of_reach,
            self.connection_breaks,
            self.connection_breaks,
            self.message_again,
            self.message_again,
            self.clock_jumps,
            self.network_slows,
            self.disk_slows,
        ]
        if world.scenario.machines_crash:
            self._kinds += [self.machine_dies] * 3
        if world.scenario.loses_power:
            self._kinds += [self.machine_dies] * 20 + [self.controller_dies] * 8
        if world.scenario.compact:  # so that shards load while files are exchanged under them
            self._kinds += [self.shard_dies, self.disk_slows] * 3
        if world.scenario.moves:
            self._kinds += [self.partition_moves] * 3
        if world.scenario.disks_fail:
            self._kinds += [self.disk_fails] * 3

        if world.scenario.loses_nodes:
            self._kinds += [world.losses.lose] * 6
        if world.scenario.removes_brokers:
            self._kinds += world.removals.kinds()
        if world.scenario.drains_nodes:
            self._kinds += [world.drains.node_is_drained] * 12
        if world.cluster.controllers:
            self._kinds += [self.controllers_part] * 3 + world.changes_of_voters.kinds()
        if world.scenario.changes_topics:
            topics = Topics(world)
            self._kinds += [topics.topic_grows, topics.topic_comes_or_goes] * 2
        if world.scenario.has_consumers:
            self._kinds += [self.member_changes_over, self.member_changes_over, self.member_dies] * 2

    def begin(self) -> None:
        self._on = True
        self._next()

    def _next(self) -> None:
        if not self._on:
            return
        kind = self.sim.random.choice(self._kinds)
        if kind():
            self.happened[kind.__name__] += 1
        # At times calm enough for the cluster to come back, and sometimes one fault upon another.
        calm = self.sim.random.random() < 0.7
        self.sim.after(self.sim.random.randint(300, 1_800) * MS if calm else 50 * MS, self._next)

    def heal(self) -> None:
        """End the faults, and repair the damage that they left."""
        self._on = False
        self.sim.calm = True
        self.sim.network.slow = False
        self.sim.network.heal()
        self.world.drains.heal()
        for process in list(self.sim.processes.values()):
            process.go_on()
        for broker in self.cluster.brokers:
            broker.machine.disk.failing = 0.0
            broker.machine.most_job_us = Machine.MOST_JOB_US
        for member in self.world.members:
            member.start()

    def figures(self) -> dict[str, int]:
        return dict(self.happened)

    # -- victims

    def _broker(self) -> SimBroker:
        return self.sim.random.choice(self.cluster.present)

    def _for_a_while(self, most_ms: int = 3_500) -> int:
        return self.sim.random.randint(50, most_ms) * MS

    def _stop(self, *processes: Process) -> None:
        until_us = self._for_a_while()
        for process in processes:
            process.stop()
            self.sim.after(until_us, process.go_on)

    # -- processes

    def broker_dies(self) -> bool:
        broker = self._broker()
        if not broker.running:
            return False
        broker.kill()
        return True

    def everything_dies(self) -> bool:
        """All brokers, shards and the controller at once."""
        if self.sim.random.random() < 0.7:
            return False
        for broker in self.cluster.brokers:
            for process in list(broker.machine.processes):
                process.kill()
        self.cluster.crash_controller(self._for_a_while(1_000))
        return True

    def broker_restarts(self) -> bool:
        """As `coterie brokers restart` does it, once in a while without handing over: its logs are closed cleanly."""
        broker = self._broker()
        if broker.process is None or broker.server is None:
            return False
        broker.process.run(broker.stop(hands_over=self.sim.random.random() < 0.7))
        return True

    def broker_stops(self) -> bool:
        broker = self._broker()
        if not broker.running or broker.process is None:
            return False
        self._stop(broker.process)
        return True

    def machine_stops(self) -> bool:
        """A virtual machine that is not scheduled: all of its processes stand still together."""
        processes = list(self._broker().machine.processes)
        self._stop(*processes)
        return bool(processes)

    def _shard(self) -> Process | None:
        shards = list(self._broker().shards)
        return self.sim.random.choice(shards) if shards else None

    def shard_dies(self) -> bool:
        shard = self._shard()
        if shard is None:
            return False
        shard.kill()
        return True

    def shard_stops(self) -> bool:
        shard = self._shard()
        if shard is None:
            return False
        self._stop(shard)
        return True

    def controller_dies(self) -> bool:
        self.cluster.crash_controller(self._for_a_while(3_000))
        return True

    def controller_stops(self) -> bool:
        several = self.cluster.controllers
        process = self.sim.random.choice(several).process if several else self.cluster.controller_process
        if process is None or not process.alive:
            return False
        self._stop(process)
        return True

    def partition_moves(self) -> bool:
        """A partition gets other replicas, or its move is cancelled, as by AlterPartitionReassignments."""
        server, process = self.cluster.controller, self.cluster.controller_process
        if server is None or process is None or not process.alive or not server.metadata.topics:
            return False
        chance, scenario = self.sim.random, self.world.scenario
        topic = chance.choice(sorted(server.metadata.topics))
        index = chance.randrange(len(server.metadata.topics[topic].partitions))
        count = 1 if scenario.replicas == 1 else chance.randint(scenario.min_insync, scenario.replicas)
        ids = [broker.id for broker in self.cluster.present]
        target = None if chance.random() < 0.2 else tuple(chance.sample(ids, count))
        self.sim.say(f"{topic}-{index} moves to {target}")
        self.sim.at(self.sim.now, process, self._move, server, Reassignment(topic, index, target))
        return True

    @staticmethod
    def _move(server: ActiveController, move: Reassignment) -> None:
        _, records = server.decide(AlterReassignments((move,), allow_factor_change=True))
        with suppress(NotControllerError):  # it leads no more, and may not have heard of it yet
            server.publisher.commit(records)

    # -- members

    def member_dies(self) -> bool:
        member = self.sim.random.choice(self.world.members)
        if not member.running:
            return False
        member.kill()
        self.sim.after(self._for_a_while(6_000), member.start)
        return True

    def member_stops(self) -> bool:
        member = self.sim.random.choice(self.world.members)
        if not member.running or member.process is None:
            return False
        self._stop(member.process)
        return True

    def member_leaves(self) -> bool:
        member = self.sim.random.choice(self.world.members)
        if not member.running or member.process is None:
            return False
        member.process.run(member.leave(self._for_a_while() + SECOND))
        return True

    def member_changes_over(self) -> bool:
        """A member is exchanged for one of the other protocol, as in a rolling restart."""
        members = [each for each in self.world.members if each.may_speak is Speaks.EITHER and each.running]
        if not members:
            return False
        member = self.sim.random.choice(members)
        assert member.process is not None
        member.process.run(member.leave(self._for_a_while(1_000)))
        return True

    # -- machines and disks

    def machine_dies(self) -> bool:
        """One at a time: the others must have everything, unless all that was acknowledged is flushed."""
        broker = self._broker()
        if not broker.machine.up:
            return False
        if not self.world.scenario.flushes and not self.world.witness.crashes.may_lose(broker):
            return False
        broker.lose_machine(self._for_a_while())
        return True

    def disk_fails(self) -> bool:
        disk = self._broker().machine.disk
        disk.failing = self.sim.random.choice((0.05, 0.3, 1.0))
        self.sim.after(self._for_a_while(), self._disk_works, disk)
        return True

    @staticmethod
    def _disk_works(disk: object) -> None:
        disk.failing = 0.0  # type: ignore[attr-defined]

    def disk_slows(self) -> bool:
        """Reads, syncs and compactions of one machine take up to half a second, and overtake one another."""
        machine = self._broker().machine
        machine.most_job_us = 500 * MS
        self.sim.after(self._for_a_while(), lambda: setattr(machine, "most_job_us", Machine.MOST_JOB_US))
        return True

    # -- the network

    def _machines(self) -> list[Machine]:
        clients = [client.machine for client in (*self.world.members, *self.world.others)]
        return [*self.cluster.machines, *(broker.machine for broker in self.cluster.brokers), *clients]

    def partition(self) -> bool:
        """One machine cannot reach some of the others."""
        one = self._broker().machine
        until_us = self.sim.now + self._for_a_while()
        everybody = self.sim.random.random() < 0.5
        cut = [m for m in self._machines() if m is not one and (everybody or self.sim.random.random() < 0.4)]
        for other in cut:
            self.sim.network.block(one.host, other.host, until_us)
        self.sim.say(f"{one.host} cannot reach {[m.host for m in cut]}")
        return bool(cut)

    def controller_out_of_reach(self) -> bool:
        """A broker and the controller do not reach each other, or only in one direction; all others reach both."""
        broker, controller = self._broker().host, self.cluster.machine.host
        until_us = self.sim.now + self._for_a_while()
        match self.sim.random.randrange(3):
            case 0:
                self.sim.network.block(broker, controller, until_us)
            case 1:
                self.sim.network.mute(controller, broker, until_us)
            case 2:
                self.sim.network.mute(broker, controller, until_us)
        self.sim.say(f"{broker} cannot reach the controller, or not be reached")
        return True

    def controllers_part(self) -> bool:
        """One of several controllers does not reach the others, or is not reached, for a while."""
        one = self.sim.random.choice(self.cluster.controllers).host
        until_us = self.sim.now + self._for_a_while()
        cut = self.sim.random.choice(("both ways", "one way", "the other way"))
        for other in self.cluster.controllers:
            if other.host == one or self.sim.random.random() < 0.2:
                continue
            match cut:
                case "both ways":
                    self.sim.network.block(one, other.host, until_us)
                case "one way":
                    self.sim.network.mute(one, other.host, until_us)
                case _:
                    self.sim.network.mute(other.host, one, until_us)
        self.sim.say(f"{one} cannot reach the other controllers, or not be reached ({cut})")
        return True

    def connection_breaks(self) -> bool:
        process = self.sim.random.choice(sorted(self.sim.processes.values(), key=lambda p: p.pid))
        endpoints = [endpoint for endpoint in process.endpoints if not endpoint.local]
        if not endpoints:
            return False
        endpoint = self.sim.random.choice(endpoints)
        self.sim.say(f"a connection of {process.name} and {endpoint.peer.process.name} breaks")
        self.sim.network.break_off(endpoint)
        return True

    def network_slows(self) -> bool:
        network = self.sim.network
        network.slow = True
        self.sim.after(self._for_a_while(), lambda: setattr(network, "slow", False))
        return True

    def message_again(self) -> bool:
        """Messages between brokers arrive once more, late, as after a retry over an unexpected path."""
        return self.world.witness.repeat_messages()

    def clock_jumps(self) -> bool:
        """Only a wall clock jumps: deadlines go by the monotonic one."""
        machine = self.sim.random.choice(self._machines())
        machine.wall_offset_us = self.sim.random.randint(-_HOUR_US, _HOUR_US)
        return True
