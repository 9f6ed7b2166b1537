"""Settings of librdkafka's clients that tests need."""

from __future__ import annotations

from typing import Final

KEEPS_BROKERS: Final = {"metadata.recovery.strategy": "none"}
"""The client keeps the brokers that it knows when none of them is connected.

By default librdkafka forgets them and begins again with `bootstrap.servers`. Version 2.16.0 may then never connect to
any of these: seen when the only connected broker was stopped while the connection to the next one was being made.
"""
