"""A program for an environment that has Coterie and nothing else: a cluster by command, a group of 300 records, a pool.

It fails if Coterie is not the installed one, or if anything takes longer than a minute.
"""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import actors
from coterie import Admin, Cluster, Consumer, ConsumerPool, NewTopic, Producer

RECORDS = 300
UP = [str(Path(sys.executable).with_name("coterie")), "up", "--brokers", "1", "--port", "0", "--data-dir", "data"]


def main() -> None:
    """Start a cluster, have a group and a pool read what was produced, and stop it."""
    installed = Path(sys.prefix).resolve()
    if installed not in Path(actors.__file__).resolve().parents:
        sys.exit(f"{actors.__file__} is not in {installed}")
    begun = time.monotonic()
    with subprocess.Popen(UP, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            servers = ready(cluster)
            up = time.monotonic()
            produce(servers)
            read_by_a_group(servers)
            read = time.monotonic()
            read_by_a_pool()
            print(
                f"up {up - begun:.1f} s, a group {read - up:.1f} s, a pool {time.monotonic() - read:.1f} s", flush=True
            )
        finally:
            cluster.send_signal(signal.SIGINT)
    if cluster.returncode:
        sys.exit(f"coterie up ended with {cluster.returncode}")


def ready(cluster: subprocess.Popen[str]) -> str:
    """Wait for the line that names the brokers."""
    assert cluster.stdout is not None
    for line in cluster.stdout:
        if found := re.match(r"ready bootstrap\.servers=(\S+)", line):
            return found[1]
    sys.exit("coterie up has ended before it was ready")


def produce(servers: str) -> None:
    """The records, in two partitions."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic("orders", 2)])
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(RECORDS):
            producer.send("orders", value=b"%d" % number, key=b"%d" % (number % 7)).get(60)


def read_by_a_group(servers: str) -> None:
    """A consumer joins a group, and reads and commits all of them."""
    found: set[int] = set()
    with Consumer("orders", bootstrap_servers=servers, group_id="readers", auto_offset_reset="earliest") as consumer:
        while len(found) < RECORDS:
            polled = consumer.poll(timeout_ms=60_000)
            if not polled:
                sys.exit(f"the group has read {len(found)} of {RECORDS} records")
            found |= {int(record.value) for records in polled.values() for record in records}
        consumer.commit()


def handle(record: object) -> None:
    """Do nothing: this is the handler of the pool's members."""


def read_by_a_pool() -> None:
    """Two members of a pool handle all of them."""
    with Cluster.connect(data_dir="data") as cluster:
        with ConsumerPool("orders", "handlers", handle, size=2, bootstrap_servers=cluster.bootstrap_servers) as pool:
            if not pool.wait(until=lambda: pool.handled() >= RECORDS, timeout_s=60):
                sys.exit(f"the pool has handled {pool.handled()} of {RECORDS} records")


if __name__ == "__main__":
    main()
