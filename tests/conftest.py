"""What holds for all tests."""

from __future__ import annotations

import os
import signal

from hypothesis import settings

# A shell that runs the tests in the background has them ignore Ctrl-C, which every program they start would inherit:
# and some tests are about Ctrl-C.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A slow machine fails no property; CI tries the same examples each time, people's machines ever new ones.
settings.register_profile("coterie", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("coterie")
