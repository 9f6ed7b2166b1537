"""Members of groups in Ray actors: pools, which call a handler, and members for Spark and Ray Data."""
