"""The handling of records by a member: from `Consumer.poll` to the user's handler, and back to the commit.

A poll's records become pieces of work (`work`): a record, or a batch of one partition. A piece is tried, retried,
split, or set aside as a dead letter. `delivery`, which has no thread and no I/O, decides what comes next, and its
drivers do it. There are two orders of work:

    serial         one piece after the other, in the member's thread: a poll's records are handled before the next poll
    side_by_side   several at a time, in threads or as tasks; `lanes` say which piece may begin. Polls continue

Offsets are committed only up to the first piece of a partition that is not done (`progress`), and a piece is done when
its handler has returned and the records that it produced are acknowledged (`output`). So a crash can repeat work, but
never loses a record.

    hands        the threads or tasks that work side by side
    in_hand      tells the pool which records are in hand, before the handler begins them
    doubts       records that were in hand when processes died, and how they are handled
    topics       the ids of the records' topics
    spec         how a member consumes, and its errors
    handler      the user's handler: its kinds, its hooks, its event loop
    context      the handler's view of its records, and its output
    letters      dead letters: the record, where it came from, and why it could not be handled
    values       keys and values, from bytes by the deserializers
    beginnings   the first position of partitions without a committed offset
    commits      when which offsets are committed
    ending       SIGTERM

The loop that puts them together is `members/pools/handler_member.py`.
"""
