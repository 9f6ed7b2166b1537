"""Consumer groups (KIP-848): the coordinator assigns, and members reconcile one by one.

A member says in its heartbeat what it subscribes to and what it owns, and is told what it may use. There is no phase in
which all members wait. Three epochs show how far a change has come:

| epoch | of | rises when |
| --- | --- | --- |
| group epoch | the group | members, subscriptions or topics change |
| assignment epoch | its target | the target of a group epoch was computed |
| member epoch | a member | it has given up what its target does not have |

The whole state of a group is in its records (state.py), so a new coordinator continues where the old one stopped.
Operations (heartbeat.py, leaving.py) look at a draft of that state and write records; executor.py runs those of a group
one after another, and hides uncommitted state. reconcile.py has the rule by which a member reconciles.

Not here: assignors (`coordinator/assignors`), and what groups of all types have in common (`coordinator/groups`).
"""
