"""Serves the metrics to Prometheus: a registry with one collector, behind prometheus-client's own HTTP server.

A scrape runs in a thread and reads what the loop keeps in memory; it asks nobody.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, ThreadingWSGIServer
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

from actors.monitor.metric_table import BUCKET, BY_NAME, METRICS, Families, MetricSpec, Row

_IDLE_SECONDS: Final = 30
_NO_TEXT: Final = "\ufffd".encode()
"""Stands for a NUL, which any client may have in its group's name: for Prometheus it ends the text in the middle."""
LEFT_OUT: Final = "coterie_metrics_series_left_out"
_ORDER: Final = {each.name: (each.rank, number) for number, each in enumerate(METRICS)}


class Series(Collector):
    """What is shown at a scrape: at most `most` series, those of a low rank first. The others are counted."""

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
    """Listens at `host` and `port` (0: any free one) until `close`. Raises OSError if it cannot.

    It speaks the plain text format, uncompressed: for a hundred thousand series that takes half of the CPU that
    OpenMetrics takes, and a third of it with compression.
    """

    def __init__(self, series: Series, host: str, port: int) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(series)
        self._one_at_a_time = Lock()
        family = _SixServer if ":" in host else ThreadingWSGIServer
        self._server = make_server(host, port, self._answer, family, handler_class=_Quiet)
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_port

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> list[bytes]:
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _said("405 Method Not Allowed", b"", start_response)
        if environ["PATH_INFO"] != "/metrics":
            return _said("404 Not Found", b"metrics are at /metrics\n", start_response)
        with self._one_at_a_time:
            text = generate_latest(self._registry).replace(b"\0", _NO_TEXT)
        return _said("200 OK", text, start_response)

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _SixServer(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class _Quiet(WSGIRequestHandler):
    timeout = _IDLE_SECONDS

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of each scrape."""

    def address_string(self) -> str:
        """The address as it is: its name is not looked up."""
        return str(self.client_address[0])


def _said(status: str, text: bytes, start_response: StartResponse) -> list[bytes]:
    start_response(status, [("Content-Type", CONTENT_TYPE_PLAIN_0_0_4), ("Content-Length", str(len(text)))])
    return [text]
