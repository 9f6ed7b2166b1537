"""A member of a classic group. The coordinator divides nothing: one of the members, the leader, does it for all.

**A round.** A member moves through four states (`standing.MemberState`, with the table of their transitions):

    UNJOINED ──JoinGroup──▶ PREPARING_REBALANCE ──its answer──▶ COMPLETING_REBALANCE ──SyncGroup's answer──▶ STABLE
        ▲                           ▲                                    │                                     │
        │                           └──────────── another round ─────────┴─────────────────────────────────────┤
        └──────────────────── left, expelled, fenced, or too long without a poll ──────────────────────────────┘

1. *Find the coordinator*: FindCoordinator, to any broker (`lookup`).
2. *Join*: JoinGroup says which topics are wanted, by which assignors, and what is owned now. The coordinator holds its
   answers back until all members of the last generation have joined or their time is up. The first JoinGroup of a new
   member is answered with an id alone, and sent again with it (KIP-394). The answer has a number, the *generation*,
   which fences everything that is said later: what carries an older one is refused.
3. *Divide*: the leader's answer has all subscriptions. It waits for the metadata of all their topics, runs the assignor
   (`leader`, `leader_assignment`, `assignors`) and sends everyone's share with SyncGroup; the others send an empty one.
4. *Take over*: SyncGroup's answer is the member's share. In the user's thread the listener hears of what is revoked,
   the assignment is applied, and the listener hears of what is new (`handover`).

From JoinGroup's answer on, the member sends heartbeats. An answer to one may say that the group is rebalancing: the
next poll then prepares (commits, gives up what it must) and joins again. The leader also asks for a round when
the metadata of its group's topics changes, and a member does when its subscription changes.

**Three clocks** (`liveness`, KIP-62). `session_timeout_ms`: without an answered heartbeat for so long the coordinator
counts the member out, so the member returns no records any more. It counts from when it sent that heartbeat, which is
never later than when the coordinator received it. `heartbeat_interval_ms`: between two heartbeats, which a thread of
their own sends, however long the program works on its records. `max_poll_interval_ms`: without a poll for so long the
program counts as hung, and the member leaves; a rebalance waits for a member as long.

**Eager and cooperative** (KIP-429). Under the eager protocol each member gives up all it owns before it joins. Under
the cooperative one it keeps its partitions through the round and gives up only those that move. A round in which
something was given up is followed by another, which hands it on. Records of kept partitions are delivered meanwhile,
so the session must not lapse while JoinGroup is out, or has failed and awaits the next poll. Heartbeats go aside then,
over another connection, because a Kafka broker answers the requests of a connection one after the other; and so do
lookups of committed offsets, for what the round before has given out.

**Static members** (KIP-345). With a `group_instance_id` a member does not leave when it closes. If it is back within
its session, it has its partitions again without a rebalance. A second member of the same instance id fences the first.

**Commits** (`fencing`). A commit carries the generation and is refused when that is over: a member cannot commit for
partitions it has lost.

**The parts.** `membership.Membership` is made of those below, and of those that members of all protocols use. It takes
events: what time it is, an answer, a wish of the user. It gives effects (requests to send) and actions (what the user's
thread must do).

    standing    state and generation, moved in one place     answers    what each error code means, row by row
    joining     JoinGroup, SyncGroup, when to try again      leader     whose topics, when to divide, does it still fit
    handover    what the user's thread has to do             heartbeats what is due by the clocks
    fencing     as whom it commits                           round      one round, and the kinds of requests
    requests    how requests are made                        config     the settings of a member

`tests/unit/client/test_client_histories.py` puts a member through random histories, and the simulator runs it
with the product's coordinator.

KIP-62: heartbeats apart from polls. KIP-345: static members. KIP-394: an id before joining. KIP-429: cooperative
rebalances. KIP-800: reasons of joining and leaving. KIP-814: a static leader comes back. KIP-881: racks in assignments.
"""
