"""Start Coterie on a Ray cluster as soon as its nodes are there: a broker on each, or on all but the head.

    python start_on_ray.py --nodes 3 --data-dir /var/lib/coterie --security secure --secret-file /etc/coterie/secret

It is for clusters whose nodes join one after the other, as with `ray up` and KubeRay. Run it on the head node: the
metadata is kept on the node where it runs, and the first broker is there, too, if the head gets one. It ends when
clients can connect; `coterie down` ends what it started.
"""

from __future__ import annotations

import argparse
import os
import sys
import time

import ray

from actors.runtime import ray_runtime
from coterie import Cluster

POLL_SECONDS = 1.0


def main() -> None:
    """Wait, start, and print where clients connect."""
    parser = argparse.ArgumentParser(description="Start Coterie when the Ray cluster is complete.")
    parser.add_argument("--nodes", type=int, required=True, help="wait for so many Ray nodes")
    parser.add_argument("--brokers", type=int, help="how many (default: one for each node)")
    parser.add_argument("--data-dir", required=True, help="where each broker keeps its data, on its own node")
    parser.add_argument("--name", default="default", help="of the cluster (default: %(default)s)")
    parser.add_argument("--port", type=int, default=9092, help="of the first broker (default: %(default)s)")
    parser.add_argument("--timeout", type=float, default=900, help="seconds to wait for nodes (default: %(default)s)")
    parser.add_argument(
        "--security",
        choices=("secure", "insecure"),
        required=True,
        help="secure: TLS, logins and ACLs, as with `coterie up --secure`; insecure: no logins at all",
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        type=lambda text: text.split("=", 1),
        help="for brokers: KEY=VALUE",
    )
    parser.add_argument("--secret-file", help="a file on each node, for coterie.secret.file; secure needs it")
    options = parser.parse_args()
    address = os.environ.get("RAY_ADDRESS", "127.0.0.1:6379")
    try:
        ray_runtime.connect(address)
    except ray_runtime.ClusterError as error:
        raise SystemExit(str(error)) from error
    wait_for_nodes(options.nodes, options.timeout)
    cluster = Cluster.start(
        options.brokers or options.nodes,
        name=options.name,
        port=options.port,
        data_dir=options.data_dir,
        config=dict(options.config) | ({"coterie.secret.file": options.secret_file} if options.secret_file else {}),
        secure=options.security == "secure",
        insecure=options.security == "insecure",
    )
    for note in cluster.notes:
        print(note, file=sys.stderr)
    print(f"ready bootstrap.servers={cluster.bootstrap_servers}", flush=True)
    cluster.disconnect()


def wait_for_nodes(wanted: int, timeout_s: float) -> None:
    """Wait until so many Ray nodes are alive. Ends the program if that takes too long."""
    deadline = time.monotonic() + timeout_s
    while (alive := sum(node["Alive"] for node in ray.nodes())) < wanted:
        if time.monotonic() > deadline:
            raise SystemExit(
                f"{alive} of --nodes {wanted} Ray nodes have come within --timeout {timeout_s:.0f} seconds"
            )
        time.sleep(POLL_SECONDS)


if __name__ == "__main__":
    main()
