"""Workers of an embedded Ray are forked from one warm process instead of being started from scratch.

A worker that starts plainly imports ray and our modules: half a second of CPU, and 60 MiB that it shares with nobody.
One that is forked from a process that has imported them needs a quarter of the CPU and half of the memory.

Ray starts its workers with the `sys.executable` it finds when it is initialized. `lent_executable` puts a script of
ours there (`executable`). It runs a worker by `client`, and nearly everything else by the real Python. It does not
start three helpers that an embedded Ray does not need: the log monitor copies workers' output to drivers, which
`start_embedded` switches off; the autoscaler's monitor adds nodes to a cluster of one; and a dashboard that Ray itself
calls minimal only counts usage. They would take 140 MiB, 1.6 s of CPU at the start, and a
fifth of what an idle cluster uses. For the dashboard ray.init would wait half a second.
Of the two agents of a node, one serves nothing without a dashboard, and the other one nothing but runtime environments:
they have stand-ins (`agents`).

The client

1. connects to the fork server's Unix socket. The first client makes the socket, forks itself, and becomes the server
   (`server`): like every worker, a child of the raylet with a worker's environment, which Ray reads when it is
   imported;
2. sends the worker's arguments, environment, working directory, process group and three open files;
3. ends when the server's child has answered, which from then on is the worker: it runs Ray's `default_worker.py`,
   registers with the raylet under its own process id, and is killed, and found dead, as any other.

The child itself answers the client, and a child that cannot answer ends. So a worker is started once, whichever process
is killed and when. The server refuses, or ends, if forking would be unsound: when imports have left it a second thread;
when they have drawn one of Ray's random ids, after which all its children would draw the same ones; when a worker has
another environment. Then, and when the server is gone, the client starts the worker plainly, and the first to do so
says why in the log.

A module that has an actor class (`@ray.remote`) draws such an id when it is imported, so only the modules below it are
imported in advance. The server ends with its raylet, and removes its folder.

Workers with a runtime environment are started plainly: Ray runs them by `setup_worker.py`, which has imported ray
before it comes to the worker.
"""
