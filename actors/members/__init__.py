"""Members of groups as actors: pools that call a handler, members that hold ranges for Spark and Ray Data."""
