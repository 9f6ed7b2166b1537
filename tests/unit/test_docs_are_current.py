"""Generated documentation equals what its generator would write now."""

from __future__ import annotations

from tools.generate_docs import TARGET, settings_page


def test_settings_page_is_current() -> None:
    assert TARGET.read_text() == settings_page(), "run: python -m tools.generate_docs"
