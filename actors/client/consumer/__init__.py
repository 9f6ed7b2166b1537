"""The consumer: fetches, positions and commits. `ranges` reads without a group."""
