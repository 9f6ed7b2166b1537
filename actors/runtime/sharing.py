"""Tasks for which several wait: none of them ends one by waiting no longer."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


async def result_of(task: asyncio.Future[T]) -> T:
    """The result of a task for which others may wait, too: it goes on if this is cancelled.

    The task's error is taken note of even if nobody waits any more. Else asyncio logs it, as one of the program's.
    """
    task.add_done_callback(_take_note)
    return await asyncio.shield(task)


def _take_note(task: asyncio.Future[Any]) -> None:
    if not task.cancelled():
        task.exception()
