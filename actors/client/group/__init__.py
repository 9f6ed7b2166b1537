"""A member of a consumer group, as a state machine without I/O, and the loop that drives it.

**Groups.** Consumers with the same group id share the partitions of their topics: each partition has one owner at a
time. One broker is the group's coordinator. It counts who is a member, remembers committed offsets, and fences members
that are out. A *group protocol* is the way in which members and coordinator agree on the owners of partitions.

**One of several.** `member` says what a consumer needs of a member, whichever protocol it speaks, and `protocols` has
the table of them. The first is the classic protocol, in the room `classic`: members meet in rounds, and one of them
divides. Kafka's newer one (KIP-848), in the room `consumer_protocol`, has no rounds and no leader: heartbeats carry
what a member owns and what it shall own, and each member has an epoch of its own. So nothing outside `classic` knows of
leaders and rounds. All protocols have in common:

- a *generation* (`generation`): the member's place in the group, with the number that fences what it says;
- *effects*: requests to send, which the `driver` carries out on the event loop, and whose answers it hands in;
- *actions*: commit first, call the listener, read these partitions. `consumer.participation` carries them out in the
  user's thread. Partitions are given up only after their action is done, and so after the listener has heard of it;
- *commits* (`offsets`): a member says as whom a commit is made and sent, and the meaning of a refusal. Offsets of
  transactions still open are held back when they are read (KIP-447).

Errors come out of the next poll.

**The parts.** A protocol is made of its own parts and of these:

    lookup      who is the coordinator             outbox      requests in flight, effects
    holdings    topics wanted, partitions owned    actions     the queue for the user's thread
    liveness    the clocks                         stats       what happened; `sensors`: how long it took
    callbacks   errors of the program's callbacks  topic_ids   which topic an offset belongs to

`tests/support/lone_member.py` is another protocol, the smallest there can be.
"""
