"""The controller's quorum under faults: voters, their disks and their links in one thread, from one seed.

- `world`: time, chance, and what a run is made of. `run`: one run, faults first; then all heals.
- `node`: a node with its disk and its process, which does what `actors.quorum.Voter` says. `network`: links.
- `faults`: what goes wrong. `people`: clients that propose, and somebody who changes the set of voters.
- `witness`: what must hold at any time.
- `bugs`: what is planted to prove that the witness sees it, and `known_seeds` that find each.

`python -m tests.sim --quorum` runs it. It has nothing in common with the simulation of whole clusters but the command.
"""
