"""The first page: the cluster as a picture. Ray nodes, the brokers on them, their shards, and what happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from actors.console import figures
from actors.console.html import Child, Html, el, join
from actors.console.pages import parts
from actors.console.pages.page import Asked, Page, Region
from actors.links.views import BrokerView, Event, GetOverview, Overview, ShardView

_ASLEEP: Final = ("Sleeping", "Asleep")
_AWAKE: Final = "Active"
_STATE_ORDER: Final = ("Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead")
_NODE_NAME: Final = 8
"""Characters of a Ray node's id that are shown."""
_TONES: Final = {
    "damage": "bad",
    "death": "bad",
    "expelled": "bad",
    "offline": "bad",
    "restart": "warn",
    "isr": "warn",
    "election": "note",
    "start": "good",
    "registered": "good",
}


async def page(asked: Asked) -> Page:
    """The cluster as a whole."""
    found = await asked.source.view(GetOverview(events=60))
    regions = (
        Region("figures", join(_heading(found), _figures(found))),
        Region("picture", _picture(found)),
        Region("events", _events(found.events, found.wall_ms)),
    )
    return Page(found.name or "Cluster", "cluster", regions, found.wall_ms)


def _heading(found: Overview) -> Html:
    sub = f"Cluster id {found.cluster_id}" if found.cluster_id else "No cluster id"
    return el("div", el("div", el("h1", found.name), el("p", sub, class_="note")), class_="title")


def _figures(found: Overview) -> Html:
    alive = sum(broker.alive for broker in found.brokers)
    awake = sum(shard.state == _AWAKE and shard.partition >= 0 for shard in found.shards)
    hosted = sum(shard.partition >= 0 for shard in found.shards)
    groups = sum(found.groups.values())
    known = [broker.leads for broker in found.brokers if broker.leads is not None]
    leads = _led(sum(known)) if known else "what they do is not told"
    order = dict.fromkeys((*_STATE_ORDER, *sorted(found.groups)))
    states = [(state, found.groups[state]) for state in order if found.groups.get(state)]
    named = ", ".join(f"{number} {state}" for state, number in states)
    unwell = "bad" if alive < len(found.brokers) else ""
    return parts.figures_of(
        parts.figure("Brokers", f"{alive} of {len(found.brokers)}", leads, unwell),
        parts.figure("Groups", figures.count(groups), parts.stacked(states, named) if states else None),
        parts.figure("Shards awake", f"{awake} of {hosted}" if hosted else figures.UNKNOWN, "of __consumer_offsets"),
        parts.figure("Lag", figures.short(found.lag), "records, all groups"),
        parts.figure("In", figures.rate(found.messages_per_s), "records"),
        parts.figure("Commits", figures.rate(found.commits_per_s), "offsets"),
        parts.figure(
            "Topics", figures.count(found.topics), f"{figures.plural(found.partitions, 'partition')}, internal ones too"
        ),
    )


def _led(leads: int) -> str:
    return f"lead {figures.plural(leads, 'partition')}"


# --- the picture ----------------------------------------------------------------------------------------------------


def _picture(found: Overview) -> Html:
    nodes: dict[str, list[BrokerView]] = defaultdict(list)
    for broker in found.brokers:
        nodes[broker.node_id].append(broker)
    if found.controller_node_id:
        nodes.setdefault(found.controller_node_id, [])
    shards: dict[int, list[ShardView]] = defaultdict(list)
    for shard in found.shards:
        shards[shard.broker_id].append(shard)
    leads = sum(broker.leads or 0 for broker in found.brokers)
    made = [_node(node, brokers, shards, found, leads) for node, brokers in nodes.items()]
    return parts.panel("Where everything runs", el("div", made, class_="nodes"), _legend(), note=_nodes_said(nodes))


def _nodes_said(nodes: Iterable[str]) -> str:
    known = [node for node in nodes if node]
    return figures.plural(len(known), "Ray node") if known else "what the brokers tell"


def _node(
    node: str, brokers: Sequence[BrokerView], shards: dict[int, list[ShardView]], found: Overview, leads: int
) -> Html:
    host = next((broker.host for broker in brokers), "")
    rack = next((broker.rack for broker in brokers if broker.rack), "")
    name = f"Ray node {node[:_NODE_NAME]}" if node else "Brokers"
    head = el("header", el("h3", name, title=node), el("span", " · ".join(filter(None, (host, rack))), class_="note"))
    here = _controller(found) if node and node == found.controller_node_id else None
    return el("article", head, here, [_broker(each, shards[each.id], leads) for each in brokers], class_="node")


def _controller(found: Overview) -> Html:
    role = el("span", "Controller", class_="role")
    said = f"pid {found.controller_pid} · epoch {found.controller_epoch}"
    return el("p", role, el("span", said, class_="note"), class_="controller")


def _broker(broker: BrokerView, shards: Sequence[ShardView], leads: int) -> Html:
    pid = f"pid {broker.pid}" if broker.pid else ""
    where = " · ".join(filter(None, (f"{broker.host}:{broker.port}", pid)))
    dead = None if broker.alive else el("span", "dead", class_="state Dead")
    number = el("span", broker.id, class_="number", aria_hidden="true")
    head = el("header", number, el("div", el("h4", f"Broker {broker.id}", dead), el("p", where, class_="note")))
    tone = "alive" if broker.alive else "dead"
    notes = [el("p", note, class_="warn") for note in broker.notes]
    body = (*notes, _leading(broker, leads), _rates(broker), _cells(shards))
    return el("section", head, *body, class_=f"broker {tone}", aria_label=f"Broker {broker.id}")


def _leading(broker: BrokerView, leads: int) -> Html | None:
    if broker.leads is None or broker.replicas is None:
        return None
    share = broker.leads / leads if leads else 0.0
    led = f"leads {figures.count(broker.leads)}, has {figures.plural(broker.replicas, 'replica')}"
    return el("div", el("p", led, class_="note"), parts.bar(share, led), class_="led")


def _rates(broker: BrokerView) -> Html:
    busy = "warn" if broker.longest_turn_ms >= 100 else ""
    turn = figures.seconds(broker.longest_turn_ms / 1000) if broker.longest_turn_ms else figures.UNKNOWN
    rows: tuple[tuple[str, str, str], ...] = (
        ("requests", figures.rate(broker.requests_per_s), ""),
        ("in", _per_s(broker.bytes_in_per_s), ""),
        ("out", _per_s(broker.bytes_out_per_s), ""),
        ("connections", figures.count(broker.connections), ""),
        ("waiting", figures.count(broker.parked), ""),
        ("longest turn", turn, busy),
    )
    return el("dl", [el("div", el("dt", a), el("dd", b, class_=c)) for a, b, c in rows], class_="rates")


def _per_s(value: float | None) -> str:
    return figures.UNKNOWN if value is None else f"{figures.size(value)}/s"


def _cells(shards: Sequence[ShardView]) -> Html | None:
    if not shards:
        return None
    own = sorted((shard for shard in shards if shard.partition >= 0), key=lambda shard: shard.partition)
    spare = sum(shard.partition < 0 for shard in shards)
    awake = sum(shard.state == _AWAKE for shard in own)
    asleep = sum(shard.state in _ASLEEP for shard in own)
    said = [f"{awake} awake", f"{asleep} asleep"]
    said += [f"{len(own) - awake - asleep} on the way"] if len(own) > awake + asleep else []
    said += [f"{spare} spare"] if spare else []
    label = f"shards: {', '.join(said)}"
    return el("div", el("p", label, class_="note"), el("ul", [_cell(shard) for shard in own], class_="cells"))


def _cell(shard: ShardView) -> Html:
    how = "awake" if shard.state == _AWAKE else "asleep" if shard.state in _ASLEEP else "moving"
    facts = [f"__consumer_offsets-{shard.partition}", shard.state.lower()]
    facts += [f"pid {shard.pid}, epoch {shard.epoch}"] if shard.pid else []
    facts += [figures.plural(shard.groups, "group"), figures.plural(shard.offsets, "offset")]
    facts += [shard.why] if shard.why else []
    full = " full" if shard.groups else ""
    text = " · ".join(facts)
    return el("li", el("span", text, class_="unseen"), class_=f"cell {how}{full}", title=text)


def _legend() -> Html:
    rows = (
        ("awake full", "a shard with groups"),
        ("awake", "awake, without groups"),
        ("moving", "is loaded, or waits"),
        ("asleep", "asleep: a request wakes it"),
    )
    return el("p", [el("span", el("i", class_=f"cell {a}"), b) for a, b in rows], class_="legend", aria_hidden="true")


# --- events ---------------------------------------------------------------------------------------------------------


def _events(events: Sequence[Event], now_ms: int) -> Html:
    if not events:
        return parts.panel("What happened", parts.nothing("Nothing has happened that is known of."))
    made = [_event(event, now_ms) for event in reversed(events)]
    return parts.panel("What happened", el("ol", made, class_="events"), note="the last first")


def _event(event: Event, now_ms: int) -> Html:
    tone = _TONES.get(event.kind, "")
    what: Child = (el("b", event.subject), " ", el("span", event.kind, class_="word"))
    head = el("p", what, parts.moment(event.wall_ms, now_ms))
    return el("li", head, el("p", event.text, class_="note"), class_=f"event {tone}".strip())
