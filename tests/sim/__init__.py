"""The whole cluster in one deterministic process: a seed in, the same run out.

What runs is the product: controller, brokers, shards, replication and clients, each in a simulated process of its own
with a simulated event loop. What is simulated is the world below: time, network, disks, processes, machines.

    python -m tests.sim --seed N             one run, and how it ended
    python -m tests.sim --seed N --trace     with what happened
    python -m tests.sim --seeds A-B          many runs
    python -m tests.sim --bugs               every planted bug, and how many seeds it takes to find it

With --quorum it is not the cluster, but the voters of the controller's log alone: tests/sim/quorum.

engine.py has time, processes and their loops; network.py sockets; disks.py what a crash leaves; environment.py is
what a process is handed from its machine; cluster.py, clients.py, members.py, intruder.py and visitor.py are who lives
there; faults.py and topics.py what befalls them; history.py, claims.py, witness.py, expulsions.py, truth.py,
group_truth.py and inspector.py hold the invariants; bugs.py breaks the product on purpose; run.py is one run.
"""
