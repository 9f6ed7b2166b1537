"""A rolling restart: brokers take what is new one after the other while the cluster serves.

Here are the checks before anything is changed, for the program that asks for one, and the order of the steps. The
controller carries them out (`actor`). A restart that has failed can be asked for again: it goes on where it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from actors.controller.listeners import ListenerPlan, check_apart, plan_listeners, refuse_open
from actors.controller.preparation import check_free, effective_config, warn_if_open
from actors.controller.settings_in_force import Changed
from actors.controller.spec import ControllerSpec
from actors.links.status import ClusterStatus
from actors.settings import LINKS, LISTENERS, OWN_STORE, OWN_TRUST, BrokerConfig, LinkSecurity, SettingError

_BY_FILES: Final = "brokers that have changed would not trust those that have not"
_OF_A_START: Final = {
    "authorizer.class.name": "all brokers of a cluster check ACLs, or none does",
    "broker.session.timeout.ms": "brokers and controller count on the same lease",
    "coterie.actor.start": "Ray has been started with it",
    "coterie.debug.core": "the controller is not started again",
    OWN_STORE: _BY_FILES,
    OWN_TRUST: _BY_FILES,
    "coterie.secret.file": "the controller is not started again",
}
"""Settings of a whole cluster, and why brokers cannot take them one after the other."""
_ALONE: Final = "coterie.broker.isolated.ms"
_SLACK_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
_LEARN_SECONDS: Final = 120.0


class Ask(Protocol):
    """Has the controller's actor carry out a method of this name, for so long at most. Raises ClusterError."""

    def __call__(self, method: str, *arguments: Any, within_s: float) -> Any: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings that a cluster is to take, and notes for the user."""

    changed: Changed
    notes: tuple[str, ...]


def planned(
    spec: ControllerSpec,
    brokers: int,
    changes: Mapping[str, str | None],
    node_addresses: Collection[str] = (),
    *,
    insecure: bool = False,
) -> Plan:
    """The plan to change settings of a cluster of so many brokers; None as a value takes a setting back.

    Raises SettingError, and ClusterError for a port that is taken, or for a listener that other machines may reach and
    that asks nobody who he is, unless there was one like it before or it is wanted: `insecure`. `node_addresses` are
    those of the Ray nodes.
    """
    asked = {**spec.config, **changes}
    settings, notes = effective_config({name: text for name, text in asked.items() if text is not None}, brokers)
    before, after = BrokerConfig.from_mapping(spec.effective), BrokerConfig.from_mapping(settings)
    _refuse_of_a_start(before, after)
    transition = _transition(spec, before.link_security, after.link_security)
    changed = Changed(settings, transition, former=_former(spec, after))
    present = plan_listeners(before, spec.host, None if LISTENERS in before.explicit else spec.port)
    listeners = plan_listeners(after, spec.host, None if LISTENERS in after.explicit else spec.port)
    new = tuple(listener for listener in listeners if not any(_alike(listener, other) for other in present))
    if not insecure:
        refuse_open(new, node_addresses)
    warn_if_open(new, after)
    check_apart(listeners, brokers)
    if spec.host is not None:  # brokers run here
        check_free(new, brokers, {port for listener in present for port in listener.ports(brokers)})
    if changed.transition:
        notes.append(f"until the next roll or start {LINKS} is both: processes connect in TLS, and take who does not")
    return Plan(changed, tuple(notes))


def _refuse_of_a_start(before: BrokerConfig, after: BrokerConfig) -> None:
    for name, why in _OF_A_START.items():
        if before[name] != after[name]:
            raise SettingError(
                name,
                f"{name} cannot change while the cluster runs, because {why}: stop it and start it with the new value",
            )


def _transition(spec: ControllerSpec, before: LinkSecurity, after: LinkSecurity) -> dict[str, str]:
    """Brokers that have changed and others that have not yet must take each other's connections."""
    opposites = {before, after} == {LinkSecurity.PROOF, LinkSecurity.TLS}
    under_way = bool(spec.transition) and not spec.everywhere
    return {LINKS: str(LinkSecurity.BOTH)} if opposites or under_way else {}


def _former(spec: ControllerSpec, after: BrokerConfig) -> dict[str, str]:
    """A broker that is cut off serves alone for as long as it was told to, even if others are told less."""
    longest = spec.of_controller.integer(_ALONE)
    return {_ALONE: str(longest)} if longest > after.integer(_ALONE) else {}


def _alike(one: ListenerPlan, other: ListenerPlan) -> bool:
    return (one.protocol, one.host, one.port, one.asks) == (other.protocol, other.host, other.port, other.asks)


class Roll:
    """The steps of a rolling restart. `on_restarted` is called with each broker that is back."""

    def __init__(self, ask: Ask, on_restarted: Callable[[int], None], timeout_s: float) -> None:
        self._ask = ask
        self._on_restarted = on_restarted
        self._timeout_s = timeout_s

    def take(
        self, changes: Mapping[str, str | None], node_addresses: Collection[str], *, insecure: bool
    ) -> tuple[str, ...]:
        """Have brokers take these settings at their next start; notes for the user. Raises as `planned` does."""
        spec, brokers = self._ask("in_force", within_s=_ANSWER_SECONDS)
        plan = planned(spec, brokers, changes, node_addresses, insecure=insecure)
        self._ask("reconfigure", plan.changed, within_s=_ANSWER_SECONDS)
        return plan.notes

    def restart(self, *broker_ids: int) -> None:
        """Restart brokers, or all that run if none is named. Raises ClusterError."""
        for broker_id in broker_ids or [broker_id for alive, broker_id in self._brokers() if alive]:
            self._ask("restart_broker", broker_id, self._timeout_s, within_s=self._timeout_s + _SLACK_SECONDS)
            self._on_restarted(broker_id)
        self._ask("elect_preferred", within_s=_ANSWER_SECONDS)

    def restart_all(self) -> None:
        """Restart all brokers: first those that do not run. Raises ClusterError."""
        self.restart(*(broker_id for _, broker_id in self._brokers()))
        self._ask("restarted_all", within_s=_ANSWER_SECONDS)

    def _brokers(self) -> list[tuple[bool, int]]:
        """(alive, id) of each broker, those first that do not run. One look, so that none is missed that dies now."""
        status: ClusterStatus = self._ask("status", within_s=_ANSWER_SECONDS)
        return sorted((broker.alive, broker.id) for broker in status.brokers)

    def new_secret(self) -> tuple[str, ...]:
        """Have the cluster prove itself by a new secret; notes for the user. Raises ClusterError."""
        self._ask("begin_new_secret", within_s=_LEARN_SECONDS)
        self._ask("use_new_secret", within_s=_LEARN_SECONDS)
        self.restart_all()
        if self._makes_certificates():
            return (
                "brokers still have certificates that follow from the former secret: give clients the new ca.pem, and "
                "then run coterie brokers roll --forget-old-secret",
            )
        self._ask("forget_old_secret", within_s=_LEARN_SECONDS)
        return ()

    def forget_old_secret(self) -> None:
        """Have the former secret forgotten, and no certificate follow from it any more. Raises ClusterError."""
        self._ask("forget_old_secret", within_s=_LEARN_SECONDS)
        if self._makes_certificates():
            self.restart_all()
            self._ask("write_authority", within_s=_ANSWER_SECONDS)

    def _makes_certificates(self) -> bool:
        spec, _ = self._ask("in_force", within_s=_ANSWER_SECONDS)
        return BrokerConfig.from_mapping(spec.effective).boolean("coterie.ssl.own.certificates")
