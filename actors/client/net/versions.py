"""The version of a request to use with a broker."""

from __future__ import annotations

from collections.abc import Mapping

from actors.client.errors import UnsupportedVersionError
from actors.wire.api_keys import ApiKey
from actors.wire.messages import ApiMessage

Ranges = Mapping[int, tuple[int, int]]

# Later versions name topics by id only. Whoever knows the ids of all topics of a request asks for more by `at_most`.
_HIGHEST_BY_NAME: dict[int, int] = {
    ApiKey.PRODUCE: 12,
    ApiKey.FETCH: 12,
    ApiKey.METADATA: 12,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
}


def choose_version(request: type[ApiMessage], broker: Ranges, at_least: int = 0, at_most: int | None = None) -> int:
    """The highest version both sides know, up to `at_most`; without it, the highest that names topics.

    Raises UnsupportedVersionError if there is none from `at_least` on.
    """
    name = request.__name__.removesuffix("Request")
    if request.api_key not in broker:
        raise UnsupportedVersionError(f"the broker has no {name}")
    low, high = broker[request.api_key]
    by_name = _HIGHEST_BY_NAME.get(request.api_key, request.max_version)
    ours = min(by_name if at_most is None else at_most, request.max_version)
    version = min(high, ours)
    if version < max(low, request.min_version, at_least):
        raise UnsupportedVersionError(
            f"{name}: the broker has versions {low} to {high}, this client needs "
            f"{max(request.min_version, at_least)} to {ours}"
        )
    return version
