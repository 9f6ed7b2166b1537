"""What all actor processes have in common, and all that is known of Ray's start, connection and processes."""
