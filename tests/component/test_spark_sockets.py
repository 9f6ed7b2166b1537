"""PySpark leaves the socket of each `collect()` to the garbage collector: a reader is not shown Python's word of it."""

from __future__ import annotations

import socket
import threading
import warnings

import pytest

from spark_bridge.session import expect_unclosed_sockets
from tests.support.pyspark_there import NEEDS_PYSPARK

SECRET = "secret"


def collect() -> list[object]:
    """Read rows as PySpark does once the JVM has named their port; here there are none."""
    from pyspark.rdd import _load_from_socket
    from pyspark.serializers import CPickleSerializer

    with socket.create_server(("127.0.0.1", 0)) as jvm:

        def serve() -> None:
            connection, _ = jvm.accept()
            with connection:
                connection.recv(4 + len(SECRET), socket.MSG_WAITALL)
                connection.sendall(b"\0\0\0\2ok")

        server = threading.Thread(target=serve)
        server.start()
        rows = list(_load_from_socket((jvm.getsockname()[1], SECRET), CPickleSerializer()))
        server.join()
    return rows


@NEEDS_PYSPARK
def test_pyspark_leaves_a_socket_open() -> None:
    with pytest.warns(ResourceWarning, match="unclosed"):
        collect()


@NEEDS_PYSPARK
def test_a_socket_that_pyspark_leaves_open_is_not_shown(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    expect_unclosed_sockets()
    assert collect() == []
    assert [str(each.message) for each in recwarn] == []


def test_a_socket_that_the_user_leaves_open_is_shown(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    expect_unclosed_sockets()
    left = socket.socket()
    del left
    assert len(recwarn) == 1
