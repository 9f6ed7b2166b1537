"""Our files: read once, each at an address that changes with its content, so that browsers keep it for good."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

_FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
    ".LICENSE": "text/plain; charset=utf-8",
}
_FOR_GOOD: Final = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}


@dataclass(frozen=True, slots=True)
class File:
    """A file as it is sent: `packed` is None where packing gains nothing."""

    type: str
    body: bytes
    packed: bytes | None


class Statics:
    """All files, by name."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._files = {path.name: _read(path) for path in sorted(folder.iterdir()) if path.suffix in _TYPES}
        digest = hashlib.sha256()
        for name, file in self._files.items():
            digest.update(name.encode() + file.body)
        self._version = digest.hexdigest()[:12]
        self.addresses: Mapping[str, str] = {name: f"/static/{self._version}/{name}" for name in self._files}

    async def answer(self, request: Request) -> Response:
        """Send a file. Its address has no secret, so it needs no login."""
        file = self._files.get(request.path_params["name"])
        if file is None or request.path_params["version"] != self._version:
            return PlainTextResponse("no such file\n", status_code=404)
        packed = file.packed if "gzip" in request.headers.get("accept-encoding", "") else None
        headers = {**_FOR_GOOD, "Content-Type": file.type}
        if packed is None:
            return Response(file.body, headers=headers)
        return Response(packed, headers={**headers, "Content-Encoding": "gzip"})


def _read(path: Path) -> File:
    body = path.read_bytes()
    packed = gzip.compress(body, 9, mtime=0)
    return File(_TYPES[path.suffix], body, packed if len(packed) < len(body) * 0.9 else None)
