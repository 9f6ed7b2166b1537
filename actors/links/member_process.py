"""A text by which a group's member tells operators of its process: what it is, its pid, and where it runs.

It is a text such as `pool pid 4711 on node 9510e81edd52`, in a tagged field of JoinGroup, and of a
ConsumerGroupHeartbeat that says everything, which Kafka passes over (KIP-482). So no assignor, no record and no other
tool sees it. A member that says nothing is a plain consumer. Those of a deployed pool say its version, too:
`pool pid 4711 on node 9510e81edd52 version 3`.
"""

from __future__ import annotations

import re
from typing import Final

CONSUMER: Final = "consumer"
_SAID = re.compile(r"(?P<kind>[a-z]+) (?P<process>pid \d+( on node \w+)?( version \d+)?)\Z")
_NODE_LENGTH: Final = 12


def kind_on_node(kind: str, node_id: str, version: int = 0) -> str:
    """The setting group_member_process of a member on a Ray node. `version` is a deployed pool's; 0: it has none."""
    return f"{kind} on node {node_id[:_NODE_LENGTH]}" + (f" version {version}" if version else "")


def said(setting: str, pid: int) -> str:
    """The text of a member, by its setting group_member_process and its pid."""
    kind, _, where = setting.partition(" ")
    return f"{kind} pid {pid} {where}".rstrip()


def kind_and_process(text: str) -> tuple[str, str]:
    """A member's kind (`pool`, `spark`, `consumer`), and its process for people; "" if it has not said it.

    Anybody may say anything: what does not have the form is a consumer's.
    """
    found = _SAID.match(text)
    return (found["kind"], found["process"]) if found is not None else (CONSUMER, "")
