"""Serves the metrics to Prometheus: a registry with one collector, behind bounds and deadlines (`web`).

The text of a scrape is made in a thread, of what the loop keeps in memory; it asks nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from actors.monitor.metric_table import BUCKET, BY_NAME, METRICS, Families, MetricSpec, Row
from actors.runtime.environment import REAL, Environment
from actors.web.callers import Bounds
from actors.web.hosts import OurNames
from actors.web.serving import listen, serve

BOUNDS: Final = Bounds(of_address=16, at_all=64, silent=32)
"""Prometheus has one connection, or two."""
_NO_TEXT: Final = "\ufffd".encode()
"""Stands for a NUL, which any client may have in its group's name: for Prometheus it ends the text in the middle."""
LEFT_OUT: Final = "coterie_metrics_series_left_out"
_ORDER: Final = {each.name: (each.rank, number) for number, each in enumerate(METRICS)}


class Series(Collector):
    """The series that are shown at a scrape: at most `most`, those of a low rank first. The others are counted."""

    def __init__(self, families: Families, most: Callable[[], int]) -> None:
        self._families = families
        self._most = most
        self.left_out = 0
        """At the last scrape."""

    def collect(self) -> Iterator[Metric]:
        """The metrics. Each family is made while it is written: all at once would be a hundred thousand objects."""
        room = _Room(self._most() - 1)
        for name, rows in sorted(self._families(), key=lambda family: _ORDER[family[0]]):
            yield _family(BY_NAME[name], room.take(rows))
        self.left_out = room.left_out
        yield _family(BY_NAME[LEFT_OUT], [((), float(room.left_out))])


class _Room:
    def __init__(self, series: int) -> None:
        self._left = series
        self.left_out = 0

    def take(self, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            if self._left > 0:
                self._left -= 1
                yield row
            else:
                self.left_out += 1


def _family(spec: MetricSpec, rows: Iterable[Row]) -> Metric:
    made = Metric(spec.name.removesuffix("_total"), spec.doc, spec.kind)
    # The library's own families copy each label into a dict twice over, and hold them all.
    made.samples = map(partial(_sample, spec), rows)  # type: ignore[assignment]
    return made


def _sample(spec: MetricSpec, row: Row) -> Sample:
    labels, value, suffix = row[0], row[1], row[2] if len(row) == 3 else ""
    names = (*spec.labels, "le") if suffix == BUCKET else spec.labels
    return Sample(spec.name + suffix, dict(zip(names, labels, strict=True)), value, None, None)


class MetricsServer:
    """Listens at `host` and `port` (0: any free one) from the beginning. Raises OSError if it cannot.

    It speaks the plain text format, uncompressed: for a hundred thousand series that takes half of the CPU that
    OpenMetrics takes, and a third of it with compression. `names` are what it may be called, beside localhost and
    addresses.
    """

    def __init__(
        self, series: Series, host: str, port: int, names: Iterable[str] = (), environment: Environment = REAL
    ) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(series)
        self._names = OurNames(names)
        self._one_at_a_time = asyncio.Lock()
        listening = listen(host, port)
        self._served = serve(self._answer, listening, "the metrics", BOUNDS, environment.clock.monotonic)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return self._served.port

    async def run(self) -> None:
        """Answer until cancelled."""
        await self._served.run()

    def close(self) -> None:
        """Listen no more, also if it has not run yet."""
        self._served.close()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        await (await self._made(request))(scope, receive, send)

    async def _made(self, request: Request) -> Response:
        if not self._names.has(request.headers.getlist("host")):
            return _said(
                421, b"these metrics are not called that: use an address, or a name of coterie.metrics.names\n"
            )
        if request.method not in ("GET", "HEAD"):
            return _said(405, b"")
        if request.url.path != "/metrics":
            return _said(404, b"metrics are at /metrics\n")
        async with self._one_at_a_time:
            text = await asyncio.to_thread(generate_latest, self._registry)
        return _said(200, text.replace(b"\0", _NO_TEXT))


def _said(status: int, text: bytes) -> Response:
    return Response(text, status, {"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "X-Content-Type-Options": "nosniff"})
