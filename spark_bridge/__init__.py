"""Spark jobs as consumer groups. Importing this imports neither Spark nor Ray; what needs them does so when called."""

from __future__ import annotations

# The function takes the name of its module: spark_bridge.session(...) is how a job begins.
from spark_bridge.session import SessionError, session

__all__ = ["SessionError", "session"]
