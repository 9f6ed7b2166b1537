"""The common parts of all actor processes, and the code that starts Ray, connects to it and knows its processes."""
