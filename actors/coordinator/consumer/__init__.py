"""Consumer groups (KIP-848): the coordinator assigns, and members change over one by one.

A member says in its heartbeat what it subscribes to and what it owns, and is told what it may use. There is no phase in
which all wait. Three epochs stand for the way of a change:

| epoch | of | rises when |
| --- | --- | --- |
| group epoch | the group | members, subscriptions or topics change |
| assignment epoch | its target | the target of a group epoch was computed |
| member epoch | a member | it has given up what its target does not have |

All that there is to a group is in its records (state.py), so a coordinator that takes over goes on where the former one
was. Operations (heartbeat.py, leaving.py) look at a draft of that state and write records; executor.py runs those of a
group one after another, and lets nobody see what has not committed. reconcile.py has the rule by which a member moves.

Not here: assignors (`coordinator/assignors`), and what groups of all types have in common (`coordinator/groups`).
"""
