"""The common parts of all actor processes, and all that is known of Ray's start, connection and processes."""
