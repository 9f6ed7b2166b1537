"""The entrance of a broker: the way from a client's socket to its request.

1. `socket_server` listens at each listener (`listening` has the port), and accepts connections within the limits:
   `clients` counts them, `address_limits` has those of single addresses. `connection_rates` (KIP-612) does not read a
   connection that has come too early.
2. On a listener with TLS, `tls_listeners` puts the handshake between the socket and the connection. `certificates`
   makes the contexts, and another one when its files change.
3. On a listener with SASL, `admission` gives each connection a gate (`authenticating`), through which every frame goes
   until its client has logged in, and again when its session ends (KIP-368). Passwords are verified in threads
   (`users`), and the addresses that they come from take turns (`fair_queue`). `tokens` verifies those of OAUTHBEARER,
   with the keys that `token_keys` reads.
4. `routing` gets whole requests of clients that may send them. It passes those about a group to the shard, and others
   to their handler. While somebody has a quota, it first asks `over_quota`, where requests wait, and `request_time`,
   which takes the time of the others (KIP-124).

Until a peer has proved who it is, it counts as unauthenticated (`links/unauthenticated`). There are few of these, none
stays for long, and one address cannot keep the others out. Connections that a limit closes are logged once a second
at most.

The connection itself is in `connections`, and quotas in `quotas`: the rooms below know these, and nothing of the
entrance.
"""
