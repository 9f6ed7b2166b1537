"""The options of `coterie console` that are looked at before anything is served."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from actors.cli.console import console


@pytest.mark.parametrize("named", ["proxy.example", "10.0.0.0/99", ""])
def test_a_proxy_that_is_no_address_is_said_at_once(named: str) -> None:
    done = CliRunner().invoke(console, ["--bootstrap-server", "127.0.0.1:1", "--proxy", named])
    assert done.exit_code == 2
    assert "Invalid value for --proxy" in done.output
