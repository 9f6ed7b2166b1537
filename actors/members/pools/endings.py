"""The end of an actor's process, by what Ray raises. No Ray is asked here, and there is no clock.

When a whole node ends at once, its connections end seconds before Ray knows of it. Until then Ray calls the actor
unavailable, or says nothing: who took that for a death of the process would blame a record for the end of a node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError

from actors.runtime.process import last_line

# Words of Ray's for how an actor has ended: by what no record can do, and by what Ray has not seen.
_NO_RECORDS: Final = ("killed by `ray.kill`", "node has died", "node was terminated", "owner has died")
_UNKNOWN: Final = "End of file"
_CRASH: Final = "its process ended without a word, as by a segmentation fault, os._exit or for want of memory"
_AGAIN_SECONDS: Final = 0.1


def how_it_died(
    ask: Callable[[float], object],
    timeout_s: float,
    monotonic: Callable[[], float],
    pause: Callable[[float], object],
) -> str | None:
    """The end of a process in words; None for an end that no record can cause.

    `ask` raises what Ray does of a call of the actor's, and waits so many seconds for it; it is asked again while the
    actor is called unavailable. Raises TimeoutError if Ray does not say within `timeout_s`.
    """
    until = monotonic() + timeout_s
    while (left := until - monotonic()) > 0:
        try:
            ask(left)
        except GetTimeoutError:
            break
        except ActorUnavailableError:
            pause(min(left, _AGAIN_SECONDS))
        except RayError as error:
            text = last_line(error)
            return None if any(each in text for each in _NO_RECORDS) else _CRASH if _UNKNOWN in text else text
        else:
            return None
    raise TimeoutError(f"Ray has not said within {timeout_s:g} s how its process has ended")
