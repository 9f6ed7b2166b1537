"""A member of a consumer group, as a state machine without I/O, and the loop that drives it.

**Groups.** Consumers with the same group id share the partitions of their topics: each partition has one owner at a
time. One broker is the group's coordinator. It keeps the list of members and the committed offsets, and fences members
that have been expelled. A *group protocol* is the way in which members and coordinator agree on the owners of
partitions.

**Two protocols.** `member` is the interface of a member for the consumer, whichever protocol it speaks, and `protocols`
has the table of protocols. In the classic protocol (room `classic`) members meet in rounds, and one of them, the
leader, divides the partitions. Kafka's newer protocol (KIP-848; room `consumer_protocol`) has no rounds and no leader:
heartbeats carry the partitions that a member owns and those that it shall own, and each member has an epoch of its own.
So nothing outside `classic` knows of leaders and rounds. All protocols have in common:

- a *generation* (`generation`): the member's place in the group, with the number that fences its requests;
- *effects*: requests to send. The `driver` sends them on the event loop, and passes their answers to the member;
- *actions*: commit first, call the listener, read these partitions. `consumer.participation` carries them out in the
  user's thread. Partitions are given up only after their action is done, and so after the listener was called;
- *commits* (`offsets`): a member says with which identity a commit is made and sent, and what a refusal means. A read
  of offsets waits for open transactions (KIP-447).

Errors that a member meets are raised by the program's next poll.

**The parts.** A protocol is made of its own parts and of these:

    lookup      who is the coordinator             outbox      requests in flight, effects
    holdings    topics wanted, partitions owned    actions     the queue for the user's thread
    liveness    the clocks                         stats       counts (times: `sensors`)
    callbacks   errors of the program's callbacks  topic_ids   which topic an offset belongs to

`auto` is a member that becomes one of either protocol. `tests/support/lone_member.py` is a third, minimal protocol.
"""
