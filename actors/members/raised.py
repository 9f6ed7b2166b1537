"""An exception of a member's, as its pool can raise it."""

from __future__ import annotations

import traceback

from ray import cloudpickle

from actors.runtime.process import error_text


def pickled_error(error: BaseException) -> bytes:
    """The error as it can be raised elsewhere, with the traceback it has here."""
    try:
        error.add_note(f"In the member:\n{''.join(traceback.format_tb(error.__traceback__))}")
        data: bytes = cloudpickle.dumps(error)
        cloudpickle.loads(data)
    except BaseException:  # all of this runs code of the error's class
        data = cloudpickle.dumps(RuntimeError(f"{type(error).__name__}: {error_text(error)}"))
    return data
