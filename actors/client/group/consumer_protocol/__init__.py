"""A member of a consumer group (KIP-848). The coordinator divides the partitions, and tells each member its own.

**No rounds.** There is one request, ConsumerGroupHeartbeat. It names the topics that the member wants and the
partitions that it owns, each field only when it has changed (`beats`); the answer names the partitions that it shall
own. No member waits for all others: it gives up what it must, reports this, and gets partitions when others have given
them up. Its *epoch* grows with each assignment that it reaches.

    UNSUBSCRIBED ─poll─▶ JOINING ─assignment─▶ RECONCILING ─taken over─▶ ACKNOWLEDGING ─heartbeat─▶ STABLE
                            ▲                       ▲                                                  │
                            │                       └───────────────── another assignment ─────────────┤
                            ├── FENCED: expelled; joins again once the listener has been called ◀──────┤
                            ├── STALE: it left after too long without a poll; the next joins again ◀───┤
                            │   FATAL: the group refuses it ◀──────────────────────────────────────────┤
                            └─poll── UNSUBSCRIBED ◀── LEAVING ◀── PREPARE_LEAVING ◀────────────────────┘

`standing.TABLE` has each state and each event.

**The order of things** when an assignment is taken over (`handover`): commit what was consumed, tell the listener what
is revoked, apply the assignment, tell the listener what is new, and only then acknowledge. The coordinator gives a
partition to the next owner when the last one has acknowledged that it gave the partition up.

**Ids and names.** The coordinator names topics by id. Topics whose names are not known yet wait for metadata; the rest
of the assignment is taken over meanwhile (`assignments`).

**The moment of a heartbeat** (`rhythm`): at once to join and to acknowledge, else at the interval that the last answer
named, one at a time. After a failure the next heartbeat has all fields, after a backoff and at the same epoch. So a
lost answer does no harm. A heartbeat that says what is owned also names what is being taken over, which Kafka's client
leaves out: a coordinator that has changed its mind could give that to another member, before it hears that this one has
it. Unlike in Kafka's client, a join waits for the backoff, too, to spare a coordinator that loads.

**Expulsion.** A member whose session has ended is told so by its next heartbeat (110 or 25). Until then it could return
records that another member already reads. So it returns none after the default session timeout without an answered
heartbeat; no answer tells it the timeout of its group. If the heartbeat interval is longer than that, the limit is two
intervals. `max_poll_interval_ms` is sent along: the coordinator expels a member that takes longer to give up a
partition.

**Commits** (`fencing`) carry the member's epoch, and are sent with the newest one: the coordinator checks it for each
partition.

**Static members** (KIP-345). With a `group_instance_id` a member that closes leaves for a while (epoch -2), and its
partitions wait for it. A second member with that id is refused while the first one is there (111). So is a member whose
own earlier join was not answered, or whose leave was lost: unlike Kafka's client, it then leaves for a while and joins
once more, before it accepts the refusal as final. With `group_instance_takeover` a new member does not wait for the
other one, but takes its place at once (`takeover`).

**The end of the protocol.** The member is refused for good if its group was deleted or became a classic one, or if the
coordinator no longer serves this protocol. With `group_protocol=auto` this is only an expulsion, and the next join
decides on the protocol.

**The parts.** `membership.Membership` is made of those below, and of those that members of all protocols use.

    standing     state and epoch, and the table        heartbeats   the sending of heartbeats, and their answers
    beats        the content of heartbeats             answers      the meaning of each error code
    assignments  partitions received and owned         reconciling  ids become names, and are taken over
    handover     the steps of the user's thread        endings      left, expelled, refused, or not polled
    wishes       the subscription                      rhythm       the clocks
    takeover     a static member has its place at once
    fencing      the identity of its commits           config       the settings of a member

KIP-848: the protocol. KIP-1082: the member makes its id. KIP-1092: leave or stay when a consumer closes.
"""
