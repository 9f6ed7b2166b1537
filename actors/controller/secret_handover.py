"""The cluster's secret on the Ray nodes of its controllers. A node without a file of it gets one, through Ray.

A controller needs the file before it can speak to any other, and also when it is alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from actors.controller.driver_ray import DriverRay, RayError
from actors.controller.new_secret import keep_in_files, why_not_through_ray
from actors.controller.spec import ControllerSpec
from actors.links.secret import Marks, Secrets, read_secrets
from actors.runtime.data_folder import prepared
from actors.runtime.process import last_line
from actors.runtime.ray_connection import asks_for_token
from actors.runtime.ray_runtime import ClusterError
from actors.settings import BrokerConfig
from placement.nodes import Node, staying_at

log = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 60.0


def give_secret(ray: DriverRay, spec: ControllerSpec, nodes: Iterable[Node], marks: Marks | None = None) -> None:
    """Have the cluster's secret stand in its file on these nodes. Those without one get it from this node's file.

    `marks` are those of the cluster's secrets; None: what this node has is the cluster's. Raises ClusterError.
    """
    path, alive = spec.secret_file, ray.nodes()
    own = _own_secrets(path)
    if own is not None and marks is not None and marks.among(own.known) is None:
        own = None  # those of another cluster
    known = own.marks if own is not None else marks
    others = {node.node_id: node for node in nodes if node.node_id != alive[0].node_id}.values()
    asked = [(node, ray.run(look, staying_at(node, alive), path)) for node in others]
    for node, answer in asked:
        try:
            found, token = answer.answer(_ANSWER_SECONDS)
            if found is None:
                secrets = _handed_out(spec, own, node, token=token and ray.asks_for_token)
                ray.run(keep, staying_at(node, alive), spec.data_dir, path, secrets).answer(_ANSWER_SECONDS)
        except RayError as error:
            raise ClusterError(f"{path} on Ray node {node.home}: {last_line(error)}") from None
        if found is not None and known is not None and found.current not in (known.current, known.next, known.previous):
            raise ClusterError(
                f"{path} on Ray node {node.home} holds another secret than the cluster has: put the cluster's there"
            )


def _own_secrets(path: str) -> Secrets | None:
    """The secrets in this node's file, if there is one."""
    try:
        return read_secrets(Path(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ClusterError(f"the cluster's secret cannot be read: {error}") from None


def _handed_out(spec: ControllerSpec, own: Secrets | None, node: Node, *, token: bool) -> Secrets:
    """The secrets, for a node that has none. Raises ClusterError if they may not travel so."""
    config = BrokerConfig.from_mapping(spec.effective)
    why = why_not_through_ray(config, spec.secret_file, f"a controller, {node.home}", token=token)
    if why is not None:
        raise ClusterError(f"a controller on {node.home} needs the cluster's secret, and {why}")
    if own is None:
        raise ClusterError(
            f"a controller on {node.home} needs the cluster's secret: call this on a node where {spec.secret_file} has "
            "it, or put it there"
        )
    log.warning(
        "the controller on %s has no %s there: the secret goes through Ray, where others may ask for it. To prevent "
        "that, put the file there, or set coterie.secret.file",
        node.home,
        spec.secret_file,
    )
    return own


def look(path: str) -> tuple[Marks | None, bool]:
    """The marks of the secrets in a node's file, None if there is no file; and whether Ray asks for a token there.

    Raises OSError, ValueError.
    """
    try:
        return read_secrets(Path(path)).marks, asks_for_token()
    except FileNotFoundError:
        return None, asks_for_token()


def keep(data_dir: str, path: str, secrets: Secrets) -> None:
    """Have the secrets stand in a node's files, for this user alone. Raises UntrustedError, OSError."""
    place = prepared(Path(data_dir), [Path(path).name], (), ())
    if Path(path).parent != place:
        raise PermissionError(
            f"private files are in {place} on this node: put a file there, and set coterie.secret.file"
        )
    keep_in_files(Path(path), secrets)
