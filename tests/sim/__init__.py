"""The whole cluster in one deterministic process: a seed in, the same run out.

The code that runs is the product's: controller, brokers, shards, replication and clients, each in a simulated process
of its own with a simulated event loop. The world below is simulated: time, network, disks, processes, machines.

    python -m tests.sim --seed N             one run, and its end
    python -m tests.sim --seed N --trace     with its events
    python -m tests.sim --seeds A-B          many runs
    python -m tests.sim --bugs               every planted bug, and the number of seeds until it is found

With --quorum the voters of the controller's log run alone, without a cluster: tests/sim/quorum.

engine.py has time, processes and their loops; network.py has sockets; disks.py decides which bytes survive a crash;
environment.py hands a process its machine's clocks and kernel; cluster.py, clients.py, members.py, intruder.py and
visitor.py are the inhabitants; faults.py and topics.py disturb them; history.py, claims.py, witness.py, expulsions.py,
truth.py, group_truth.py and inspector.py hold the invariants; bugs.py breaks the product on purpose; run.py is one run.
"""
