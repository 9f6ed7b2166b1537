"""The changes of a page, as server-sent events: regions that differ, and points that are new.

An event is JSON with `look` (the wall time of the view), `regions` (HTML by name) and `series` (points after the last
that was sent). A page is made again for each look, whether it has changed or not: that costs the cluster nothing, as
the views are asked for once for all who look.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from actors.console.pages.document import as_json
from actors.console.pages.page import Page
from actors.console.source import SourceError

Make = Callable[[], Awaitable[Page | None]]
"""Makes the page again; None when the visit is over."""

_PROBLEM_S: Final = 5.0
_QUIET_S: Final = 15.0
"""A comment is sent when nothing has been for so long, so that both ends see that the other is there."""


async def events(make: Make, interval_s: float, since_ms: int, closing: asyncio.Event) -> AsyncIterator[str]:
    """The events of a page from a look on. Ends when the visit is over, or the console is `closing`."""
    sent: dict[str, str] = {}
    last_ms, quiet_s = since_ms, 0.0
    yield "retry: 2000\n\n"
    while not closing.is_set():
        try:
            page = await make()
        except SourceError as error:
            yield _event("problem", json.dumps({"text": str(error)}))
            await _wait(closing, _PROBLEM_S)
            continue
        if page is None:
            yield _event("over", "{}")
            return
        text = _changes(page, sent, last_ms)
        if text is not None:
            yield _event("look", text)
            last_ms, quiet_s = max(last_ms, page.wall_ms), 0.0
        else:
            quiet_s += interval_s
        if quiet_s >= _QUIET_S:
            yield ": still here\n\n"
            quiet_s = 0.0
        await _wait(closing, interval_s)


async def _wait(closing: asyncio.Event, most_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(most_s):
            await closing.wait()


def _changes(page: Page, sent: dict[str, str], since_ms: int) -> str | None:
    """The parts of a page that have not been sent, as JSON; None if nothing has changed."""
    regions = {each.name: each.html for each in page.regions if sent.get(each.name) != each.html}
    newer = page.wall_ms > since_ms
    if not regions and not newer:
        return None
    sent.update(regions)
    parts = [f'"look":{page.wall_ms}', f'"regions":{json.dumps(regions)}']
    if page.series is not None and newer:
        parts.append(f'"series":{as_json(page.series.after(since_ms))}')
    return "{" + ",".join(parts) + "}"


def _event(name: str, data: str) -> str:
    return f"event: {name}\ndata: {data}\n\n"
