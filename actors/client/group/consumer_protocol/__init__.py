"""A member of a consumer group (KIP-848). The coordinator divides, and tells each member by itself what it shall own.

**No rounds.** There is one request, ConsumerGroupHeartbeat. It says what the member wants and owns, each field only
when it has changed (`beats`); the answer says what it shall own. A member is not held up by others: it gives up what it
must, says so, and is given what others have given up. Its *epoch* grows with each assignment that it reaches.

    UNSUBSCRIBED ─poll─▶ JOINING ─assignment─▶ RECONCILING ─taken over─▶ ACKNOWLEDGING ─heartbeat─▶ STABLE
                            ▲                       ▲                                                  │
                            │                       └───────────────── another assignment ─────────────┤
                            ├── FENCED: expelled; joins again once the listener has heard of it ◀──────┤
                            ├── STALE: it left for want of polls; the next poll joins again ◀──────────┤
                            │   FATAL: the group will not have it ◀────────────────────────────────────┤
                            └─poll── UNSUBSCRIBED ◀── LEAVING ◀── PREPARE_LEAVING ◀────────────────────┘

`standing.TABLE` has each state and each happening.

**The order of things** when an assignment is taken over (`handover`): commit what was consumed, tell the listener what
is revoked, apply the assignment, tell the listener what is new, and only then acknowledge. The coordinator gives a
partition to the next owner when it is acknowledged that the last one has given it up.

**Ids and names.** The coordinator names topics by id. Those whose names are not known yet wait for metadata; the rest
is taken over meanwhile (`assignments`).

**The moment of a heartbeat** (`rhythm`): at once to join and to acknowledge, else at the interval that the last answer
named, one at a time. After a failure the next one says everything, after a backoff and at the same epoch. So a lost
answer does no harm. Unlike Kafka's client, a join waits for the backoff, too: a coordinator that loads is not hammered.

**Expulsion.** A member whose session has ended is told so by its next heartbeat (110 or 25). Until then it could hand
out records that another one reads already. So it hands out none when no heartbeat was answered for as long as sessions
last by default; which value its group has no answer tells. If the interval is longer than that, two of them count.
`max_poll_interval_ms` is sent along: the coordinator expels a member that takes longer to give up a partition.

**Commits** (`fencing`) carry the member's epoch, and are sent with the newest one: the coordinator checks it by
partition.

**Static members** (KIP-345). With a `group_instance_id` a member that closes leaves for a while (epoch -2), and its
partitions wait for it. A second member of that name is refused while the first one is there (111). So is a member whose
own earlier join was not answered, or whose leave was lost: unlike Kafka's client, it then leaves for a while and joins
once more, before it takes the refusal for final. With `group_instance_takeover` a new member does not wait for the
other one: it takes the place (`takeover`).

**A protocol that ends.** A group that was deleted or became a classic one, and a coordinator that serves this protocol
no longer, will not have the member. With `group_protocol=auto` that is an expulsion alone, and its join decides.

**The parts.** `membership.Membership` is made of those below, and of those that members of all protocols use.

    standing     state and epoch, and the table        heartbeats   when one is sent, and what its answer leads to
    beats        what heartbeats say and have said     answers      the meaning of each error code
    assignments  what was received and what is owned   reconciling  ids become names, and are taken over
    handover     the steps of the user's thread        endings      left, expelled, refused, or not polled
    wishes       the subscription                      rhythm       the clocks
    takeover     a static member has its place at once
    fencing      as whom it commits                    config       the settings of a member

KIP-848: the protocol. KIP-1082: the member makes its id. KIP-1092: how to part when a consumer closes.
"""
