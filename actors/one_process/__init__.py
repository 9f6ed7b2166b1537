"""A whole cluster in one process, without Ray: a controller, brokers and their shards on one loop, with real sockets.

It is for tests. Controller, brokers and shards run unchanged; only their interface to the machine differs (`machine`),
because they share one process. A program that needs a cluster starts a child process for it and sends it orders over a
socket; the child ends when the socket does.

- `face`: the calls of tests. `arguments`: checks their arguments. `starting`: starts the child, and sends it orders.
- `orders`: the messages between parent and child.
- `child`: the process itself. `hosting`: the controller and the brokers, `tasks` for processes. `clock`: a time that
  can be advanced. `answers`: delays and refuses answers. `faults`: faults by order. `asking`: a client.

The parent imports only `face`, `arguments`, `starting` and `orders`.
"""
