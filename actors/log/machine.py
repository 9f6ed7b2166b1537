"""The machine that a data directory lies on. The creator of the directory hands it in; there is no default."""

from collections.abc import Callable
from dataclasses import dataclass

from actors.log.files import FileWriter


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine under a data directory."""

    writer: FileWriter
    boot: Callable[[], bytes]
    """The id of the machine's boot. Raises OSError."""
    new_name: Callable[[], str]
    """A name that no file has had, of letters and digits."""
