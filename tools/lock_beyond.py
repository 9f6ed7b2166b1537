"""`python -m tools.lock_beyond BASE WHOLE`: the lock file of what WHOLE pins and BASE does not, on stdout."""

from __future__ import annotations

import re
import sys
from pathlib import Path

_ENTRY = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def entries(lock: str) -> dict[str, str]:
    """Each package's part of a lock file, by name."""
    return {match["name"].lower(): match[0] for match in _ENTRY.finditer(lock)}


def main() -> None:
    """Print the difference."""
    base, whole = (entries(Path(name).read_text()) for name in sys.argv[1:])
    print("".join(text for name, text in whole.items() if name not in base), end="")


if __name__ == "__main__":
    main()
