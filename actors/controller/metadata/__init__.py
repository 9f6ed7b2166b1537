"""The metadata of a cluster: decided, then committed, then published.

A change goes one way: a decision gives records (`placement.records`); `Publisher.commit` appends them to the log, which
applies them to the *decided* metadata at once and gives a `Commit`; when they have committed, they are applied to the
*committed* metadata and brokers are sent the new image; answers wait for both.

Decisions are made from the decided metadata, so that one can follow another without a wait. All that leaves the
controller is made from the committed metadata, or waits for a `Commit`: images, answers, registrations of brokers,
starts of processes, events. An answer without a change waits, too, for all earlier decisions, because it was made from
them. If a decision cannot commit any more, because another controller has begun, nobody has heard of it: it is dropped,
and the decided metadata is the committed one again.

Records are fenced by the epoch of the controller that decided them: the log refuses those of an older one.

- `commits`: the decided and the committed metadata, and what waits in between. No I/O.
- `log`: what the controller needs of a log (`Log`), and the first one: a file on one node, in which records have
  committed when they are on disk.
- `quorum_log`: another `Log`, one that several nodes agree on, over a voter (`actors.quorum`) and its file
  (`voter_file`).
- `standalone`: the log of a controller that is the only one of its cluster, in the form that the level asks for.
- `frames`: the layouts of the file, since the first.
- `publisher`: images for brokers. `unacked`: answers that wait until brokers have them. `events`: the events for the
  Monitor.
"""
