"""The addresses where the brokers of a cluster take clients: listener by listener, and broker by broker.

`listeners` gives them, or else the host and port that the start was given. The ports are those of broker 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from actors.broker.spec import BrokerSpec, Door
from actors.runtime.ray_runtime import ClusterError
from actors.security.acl import is_loopback
from actors.settings import ANY_HOST, BrokerConfig, Listener, SecurityProtocol

_PORT_MAX = 65535
_EVERY_INTERFACE = "0.0.0.0"


@dataclass(frozen=True, slots=True)
class ListenerPlan:
    """One listener of a cluster. `host` None is the address of each broker's Ray node."""

    listener: str
    protocol: SecurityProtocol
    host: str | None
    port: int
    chosen_by: str
    """The setting or option that chose the port, as a user writes it."""
    advertised: Listener | None = None
    asks: bool = False
    """True if clients have to authenticate, or may do nothing unless ACLs give it to everybody."""

    def of_broker(self, broker_id: int, node_address: str, present_port: int = 0) -> Door:
        """The listener of one broker, which had `present_port` before where any free one will do."""
        host = self.host or node_address
        told = self.advertised
        return Door(
            listener=self.listener,
            protocol=self.protocol,
            host=host,
            port=self.port + broker_id if self.port else present_port,
            advertised_host=(told.host if told else "") or (node_address if host in ANY_HOST else host),
            advertised_port=told.port + broker_id if told and told.port else 0,
            port_chosen_by=self.chosen_by if self.port else "",
        )

    def ports(self, brokers: int) -> range:
        """The ports that so many brokers have."""
        return range(self.port, self.port + brokers)


def plan_listeners(config: BrokerConfig, host: str | None, port: int | None) -> tuple[ListenerPlan, ...]:
    """The listeners of a cluster. `host` and `port` are those of a start, None if it names none.

    Raises ClusterError if the port is not that of `listeners`.
    """
    if "listeners" not in config.explicit:
        told = config.advertised_listeners.get(SecurityProtocol.PLAINTEXT)
        protocol = SecurityProtocol.PLAINTEXT
        return (ListenerPlan(protocol, protocol, host, port or 0, f"--port {port}", told),)
    first, advertised = config.listeners[0], config.advertised_listeners
    if port is not None and port != first.port:
        raise ClusterError(f"--port {port} and the port {first.port} of listeners contradict each other: leave one out")
    return tuple(
        ListenerPlan(
            each.name,
            each.protocol,
            each.host or _EVERY_INTERFACE,
            each.port,
            "listeners",
            advertised.get(each.name),
            _asks(each, config),
        )
        for each in config.listeners
    )


def _asks(listener: Listener, config: BrokerConfig) -> bool:
    if listener.protocol is not SecurityProtocol.SSL:
        return listener.protocol.sasl
    own = config.for_listener(listener.name)
    return own["ssl.client.auth"] == "required" or bool(config.text("authorizer.class.name"))


def check_apart(plans: tuple[ListenerPlan, ...], brokers: int) -> None:
    """Raise ClusterError if a port is out of range, or two listeners of so many brokers would have one."""
    for index, plan in enumerate(plans):
        if not 0 <= plan.port <= _PORT_MAX - brokers:
            text = f"{plan.chosen_by} is out of range: 0 to {_PORT_MAX - brokers} for {brokers} broker(s)"
            raise ClusterError(text if plan.chosen_by != "listeners" else f"port {plan.port} of {text}")
        for other in plans[:index]:
            shared = set(plan.ports(brokers)) & set(other.ports(brokers)) if plan.port and other.port else None
            if shared and _meet(plan, other):
                raise ClusterError(
                    f"{brokers} brokers have the ports from {other.port} on for listener {other.listener}, and from "
                    f"{plan.port} on for {plan.listener}: port {min(shared)} is in both; leave {brokers} between them"
                )


def _meet(one: ListenerPlan, other: ListenerPlan) -> bool:
    """True if both may listen at one address; they do not if only one of them is at IPv6."""
    return (":" in (one.host or "")) == (":" in (other.host or ""))


def refuse_open(plans: tuple[ListenerPlan, ...], node_addresses: Collection[str] = ()) -> None:
    """Raise ClusterError for a listener that other machines may reach and that asks nobody who he is.

    `node_addresses` are those of the Ray nodes, as far as they are known: some brokers listen at these.
    """
    for plan in plans:
        hosts = node_addresses if plan.host is None else (plan.host,)
        far = next((host for host in hosts if not is_loopback(host)), None)
        if not plan.asks and far is not None:
            raise ClusterError(
                f"listener {plan.listener} on {far} asks for no authentication, and other machines may reach it: start "
                "with --secure (secure=True), or say --insecure (insecure=True)"
            )


def open_to_others(plans: tuple[ListenerPlan, ...]) -> Iterator[ListenerPlan]:
    """The listeners that other machines may reach."""
    for plan in plans:
        if plan.host is not None and not is_loopback(plan.host):
            yield plan


def listeners_of(
    plans: tuple[ListenerPlan, ...], broker_id: int, node_address: str, present: Mapping[str, int]
) -> tuple[Door, ...]:
    """The listeners of one broker; `present` has the ports that it had, by listener."""
    return tuple(plan.of_broker(broker_id, node_address, present.get(plan.listener, 0)) for plan in plans)


def told_otherwise(
    plans: tuple[ListenerPlan, ...], config: dict[str, str], broker: BrokerSpec, node_address: str
) -> BrokerSpec:
    """A broker's spec with these listeners and settings. A port that nothing chooses stays as it is."""
    present = {door.listener: door.port for door in broker.doors}
    return replace(broker, doors=listeners_of(plans, broker.broker_id, node_address, present), config=config)
