"""Members of groups in Ray actors: pools, which call a handler, and members that hold ranges for Spark and Ray Data."""
