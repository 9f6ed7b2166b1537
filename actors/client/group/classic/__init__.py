"""A member of a classic group. The coordinator divides nothing: one member, the leader, divides the partitions.

**A round.** A member moves through four states (`standing.MemberState`, with the table of their transitions):

    UNJOINED ──JoinGroup──▶ PREPARING_REBALANCE ──its answer──▶ COMPLETING_REBALANCE ──SyncGroup's answer──▶ STABLE
        ▲                           ▲                                    │                                     │
        │                           └──────────── another round ─────────┴─────────────────────────────────────┤
        └──────────────────── left, expelled, fenced, or too long without a poll ──────────────────────────────┘

1. *Find the coordinator*: FindCoordinator, to any broker (`lookup`).
2. *Join*: JoinGroup names the wanted topics, the assignors, and the partitions owned now. The coordinator holds its
   answers back until all members of the last generation have joined or their time is up. The first JoinGroup of a new
   member is answered with an id alone, and sent again with it (KIP-394). The answer has a number, the *generation*,
   which fences all later requests: one with an older generation is refused.
3. *Divide*: the leader's answer has all subscriptions. It waits for the metadata of all their topics, runs the assignor
   (`leader`, `leader_assignment`, `assignors`) and sends everyone's share with SyncGroup; the others send an empty one.
4. *Take over*: SyncGroup's answer is the member's share. In the user's thread the listener is told what is revoked, the
   assignment is applied, and the listener is told what is new (`handover`).

From JoinGroup's answer on, the member sends heartbeats. An answer to one may say that the group is rebalancing: the
next poll then prepares (commits, gives up what it must) and joins again. The leader also asks for a round when
the metadata of its group's topics changes, and a member does when its subscription changes.

**Three clocks** (`liveness`, KIP-62). `session_timeout_ms`: after this time without an answered heartbeat the
coordinator expels the member, so the member returns no records any more. It counts from when it sent that heartbeat,
which is never later than when the coordinator received it. `heartbeat_interval_ms`: the time between two heartbeats. A
separate thread sends them, however long the program works on its records. `max_poll_interval_ms`: after this time
without a poll the program counts as hung, and the member leaves; a rebalance waits for a member for the same time.

**Eager and cooperative** (KIP-429). Under the eager protocol each member gives up all it owns before it joins. Under
the cooperative one it keeps its partitions through the round and gives up only those that move. A round in which
something was given up is followed by another, which hands it on. Records of kept partitions are delivered meanwhile, so
the session must not expire while JoinGroup is in flight, or has failed and awaits the next poll. Heartbeats then use
another connection, because a Kafka broker answers the requests of a connection one after the other. So do lookups of
committed offsets for partitions that the previous round has assigned.

**Static members** (KIP-345). With a `group_instance_id` a member does not leave when it closes. If it is back within
its session, it has its partitions again without a rebalance. A second member of the same instance id fences the first.

**Commits** (`fencing`). A commit carries the generation, and is refused if that is not the present one: a member cannot
commit for partitions that it has lost.

**The parts.** `membership.Membership` is made of those below, and of those that members of all protocols use. It takes
events: the time, an answer, a call of the user. It returns effects (requests to send) and actions (for the user's
thread).

    standing    state and generation, changed only here      answers     the meaning of each error code
    joining     JoinGroup, SyncGroup, and their repetition   leader      the leader's topics, and when it divides
    handover    the steps of the user's thread               heartbeats  the requests that the clocks ask for
    fencing     the identity with which a member commits     round       one round, and the kinds of requests
    requests    makes requests                               config      the settings of a member

    leader_assignment   runs the assignor over the subscriptions of all members

`tests/unit/client/test_client_histories.py` puts a member through random histories, and the simulator runs it
with the product's coordinator.

KIP-62: heartbeats apart from polls. KIP-345: static members. KIP-394: an id before joining. KIP-429: cooperative
rebalances. KIP-800: reasons of joining and leaving. KIP-814: a static leader comes back. KIP-881: racks in assignments.
"""
