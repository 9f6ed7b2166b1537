"""The handling of records by a member: from `Consumer.poll` to the user's handler, and back to the commit.

A poll's records become pieces of work (`work`): a record, or a batch of one partition. A piece is tried, tried again,
taken apart or set aside as a dead letter (`delivery`, which has no thread and no I/O of its own: it says what comes
next, and its drivers do it). There are two orders of work:

    serial         one piece after the other, in the member's thread: what a poll gave is handled before the next poll
    side_by_side   several at a time, in threads or as tasks; `lanes` say which piece may begin. Polls go on meanwhile

Offsets are committed only up to the first piece of a partition that is not done (`progress`), and a piece is done when
its handler has returned and the records that it produced are acknowledged (`output`). So a crash repeats work and
never loses any.

    spec         how a member consumes, and its errors
    handler      the user's handler: its kinds, its hooks, its event loop
    context      what a handler is told of the records it gets, and its output
    letters      dead letters: the record, where it came from, and why it could not be handled
    values       keys and values: what the deserializers make of bytes
    beginnings   where partitions begin that have no committed offset
    commits      when which offsets are committed
    ending       SIGTERM

The loop that puts them together is `members/handler_member.py`.
"""
