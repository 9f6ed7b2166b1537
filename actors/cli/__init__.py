"""The coterie command. Each verb imports what it needs when it runs, so that `coterie --help` is quick."""
