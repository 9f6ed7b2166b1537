"""Which version of a request to use with a broker."""

from __future__ import annotations

from collections.abc import Mapping

from actors.client.errors import UnsupportedVersionError
from actors.wire.api_keys import ApiKey
from actors.wire.messages import ApiMessage

Ranges = Mapping[int, tuple[int, int]]

# Later versions name topics by id only; programs, and the caches here, know them by name.
_HIGHEST_WE_SPEAK: dict[int, int] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}


def choose_version(request: type[ApiMessage], broker: Ranges, at_least: int = 0, at_most: int = 32767) -> int:
    """The highest version both sides know. Raises UnsupportedVersionError if there is none from `at_least` on."""
    name = request.__name__.removesuffix("Request")
    if request.api_key not in broker:
        raise UnsupportedVersionError(f"the broker has no {name}")
    low, high = broker[request.api_key]
    ours = _HIGHEST_WE_SPEAK.get(request.api_key, request.max_version)
    version = min(high, ours, request.max_version, at_most)
    if version < max(low, request.min_version, at_least):
        raise UnsupportedVersionError(
            f"{name}: the broker has versions {low} to {high}, this client needs "
            f"{max(request.min_version, at_least)} to {min(ours, at_most)}"
        )
    return version
