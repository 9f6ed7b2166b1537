"""The number of a property's examples where the profile's is not the right one. Holds no tests."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> settings:
    """So many; on another Python no more than any property has there (the profile `few` of tests/conftest.py)."""
    few = settings.get_profile("few").max_examples
    return settings(max_examples=min(count, few) if settings().max_examples == few else count)
