"""Generated documentation equals what its generator would write now."""

from __future__ import annotations

import pytest

from tools.generate_docs import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run: python -m tools.generate_docs"
