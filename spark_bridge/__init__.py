"""Spark jobs as consumer groups. Importing this package imports neither Spark nor Ray; using its functions does."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# The function takes the name of its module: spark_bridge.session(...) is how a job begins.
from spark_bridge.session import SessionError, SparkMissingError, session

if TYPE_CHECKING:
    from spark_bridge.batch import Batch, BatchRange
    from spark_bridge.groups import lag, offsets_history, summarise_groups
    from spark_bridge.once import OnceFiles, OnceTable
    from spark_bridge.progress_commits import ProgressCommits, commit_progress
    from spark_bridge.query import GroupQuery
    from spark_bridge.read import read_topic
    from spark_bridge.stream import GroupStream
    from spark_bridge.write import write_topic

__all__ = [
    "Batch",
    "BatchRange",
    "GroupQuery",
    "GroupStream",
    "OnceFiles",
    "OnceTable",
    "ProgressCommits",
    "SessionError",
    "SparkMissingError",
    "commit_progress",
    "lag",
    "offsets_history",
    "read_topic",
    "session",
    "summarise_groups",
    "write_topic",
]

_HOMES = {
    "Batch": "batch",
    "BatchRange": "batch",
    "GroupQuery": "query",
    "GroupStream": "stream",
    "OnceFiles": "once",
    "OnceTable": "once",
    "ProgressCommits": "progress_commits",
    "commit_progress": "progress_commits",
    "lag": "groups",
    "offsets_history": "groups",
    "read_topic": "read",
    "summarise_groups": "groups",
    "write_topic": "write",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
