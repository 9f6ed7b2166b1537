"""The cluster's secret: where it stands, and how one tells which it is without saying it."""

from __future__ import annotations

import hmac
from pathlib import Path

SECRET_BYTES = 32


def read_secret(path: Path) -> bytes:
    """The secret in a file: 64 hexadecimal digits. Raises OSError, and ValueError without what stands there."""
    text = path.read_text(errors="replace").strip()
    try:
        secret = bytes.fromhex(text)
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"{path} has to hold {2 * SECRET_BYTES} hexadecimal digits and nothing else")
    return secret


def mark(secret: bytes) -> bytes:
    """What tells this secret from others, and may be known."""
    return hmac.digest(secret, b"which secret", "sha256")


def is_marked(secret: bytes, as_this: bytes) -> bool:
    """Whether this is the secret with that mark."""
    return hmac.compare_digest(mark(secret), as_this)
