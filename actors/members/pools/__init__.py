"""Pools: members of a group in Ray actors that call a user's handler, and their supervision.

**The pool's side.** A pool has a *slot* for each member (`slots`), with a `group.instance.id` that stays through the
deaths of its actors. `supervision` has a thread for each slot. It starts an actor (`consumer_actor`), reads its reports
over a connection (`member_link`, on the floor below), and starts a successor when the connection ends: the same static
member, so nothing is rebalanced for the others (KIP-345). `slot_life` is the table of a slot's states, `restarts` that
of the pauses between starts, and `standby` makes a successor ready while its predecessor still works. `members` has all
of them together: more, fewer, none.

**In the actor** `handler_member` polls a Consumer, has the records handled (room `handling`), and commits what was
handled: at least once.

**Deaths.** A member says which records it has in hand before its handler begins them. When its process dies, `blame`
and `deaths` note these; `endings` (what Ray says) and `lease` decide which deaths are no record's fault. A record that
was alone in hand at several deaths becomes a dead letter.

**Silence.** C code that holds the interpreter's lock stops a member's heartbeats: the pool sends them (room `watch`).

**Size.** With a policy the pool follows its load: `scaling` asks for it (`load`) and applies the rule (`autoscale`, on
the floor below). `draining` moves members away from nodes that Ray drains.

    plan, pickling, topics_there   checks before anything is started
    status                         a pool's members and changes of its size, as users see them
    hindered, slot_words           what becomes of members, in the log and the journal
    totals                         counts of records, of members that are gone, too
    figures                        figures of the pool for the clusters on its Ray
    process_end                    waits for the end of a killed process

ConsumerPool, which programs call, is `actors/members/pool.py`.
"""
