"""Tokens that somebody has changed: nothing is raised, and nothing stays. The tool does a hundred thousand."""

from __future__ import annotations

import logging

import pytest

from tests.support.token_mutations import ends


@pytest.mark.conformance("XG-06")
@pytest.mark.parametrize("seed", range(4))
def test_a_changed_token_ends_as_a_failed_login_or_goes_on(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    found = ends(seed, 500)
    assert sum(found.values()) == 500
    assert found["failed"] > 300
    assert {record.levelno for record in caplog.records} == {logging.WARNING}, "nothing was raised"
    assert not any(record.exc_info for record in caplog.records)
