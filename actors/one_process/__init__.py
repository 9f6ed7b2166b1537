"""A whole cluster in one process, without Ray: a controller, brokers and their shards on one loop, with real sockets.

It is for tests. The parts are those of every cluster, as they are: only what a process has from its machine differs
(`machine`), because several of them share one here. A program that wants a cluster starts a child process for it and
asks it by a socket, whose end is the child's end.

- `face`: what tests call. `arguments`: what they give, checked. `starting`: the child's start, and how it is asked.
- `orders`: what the child is asked, and answers.
- `child`: the process itself. `hosting`: the controller and the brokers, `tasks` for processes. `clock`: a time that
  can be moved on. `answers`: those that are delayed or refused. `faults`: what happens by order. `asking`: a client.

The parent imports `face`, `arguments`, `starting` and `orders` alone.
"""
