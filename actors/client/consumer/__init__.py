"""The consumer: fetches, positions and commits of a member, and `ranges`, which reads without a group."""
