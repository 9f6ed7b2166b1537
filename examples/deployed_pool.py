"""A pool that outlives the program that deploys it.

With a cluster that `coterie up` runs:

    python examples/deployed_pool.py deploy     # a pool of two members, which goes on after this
    python examples/deployed_pool.py look
    python examples/deployed_pool.py scale 4
    python examples/deployed_pool.py stop

Kill what you like meanwhile: a member, the pool's supervisor or a broker. Or kill everything at once, and run
`coterie up` again. Run `deploy` once more with another `handle`: the new version replaces the members one at a time.
"""

from __future__ import annotations

import argparse

from coterie import Admin, Cluster, ConsumerPool, ConsumerRecord, NewTopic, Producer

NAME = "counting"
TOPIC = "clicks"


def handle(record: ConsumerRecord) -> None:
    """Your work goes here."""
    int(record.value)


def deploy(servers: str) -> None:
    """Deploy the pool, and write something for it to handle."""
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(TOPIC, 6)], raise_errors=False)
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(1000):
            producer.send(TOPIC, b"1", key=b"%d" % number)
    pool = ConsumerPool.deploy(NAME, TOPIC, NAME, handle, size=2, bootstrap_servers=servers)
    pool.wait(timeout_s=120)


def main() -> None:
    """Run one of the four commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["deploy", "look", "scale", "stop"])
    parser.add_argument("size", type=int, nargs="?", default=2)
    parser.add_argument("--data-dir", default="coterie-data", help="that of `coterie up`")
    given = parser.parse_args()
    with Cluster.connect(data_dir=given.data_dir) as cluster:
        servers = cluster.bootstrap_servers
        if given.what == "deploy":
            deploy(servers)
        pool = ConsumerPool.attach(NAME, bootstrap_servers=servers)
        if given.what == "scale":
            pool.scale(given.size)
            pool.wait(timeout_s=120)
        if given.what == "stop":
            pool.stop()
            return
        found = pool.describe()
        print(f"{found.name}: {found.state}, version {found.version}, {found.handled} records handled")
        for member in found.members:
            print(f"  {member.slot}: {member.state}, pid {member.pid}, {len(member.assignment)} partitions")


if __name__ == "__main__":
    main()
