"""Where Spark is not installed, on Pythons for which there is no RayDP, errors say so."""

from __future__ import annotations

import platform

import pytest

from actors.cli.doctor import OK, java
from spark_bridge.session import SessionError, check_installed


@pytest.mark.parametrize(("missing", "named"), [({"pyspark", "raydp"}, "pyspark and raydp"), ({"raydp"}, "raydp")])
def test_a_session_says_in_one_line_what_it_needs(missing: set[str], named: str) -> None:
    with pytest.raises(SessionError) as raised:
        check_installed(lambda name: None if name in missing else name)
    text = str(raised.value)
    assert text.startswith(f"Spark on Ray needs {named}, ")
    assert f"this is {platform.python_version()}" in text
    assert "\n" not in text


def test_where_all_is_installed_nothing_is_said() -> None:
    check_installed(lambda name: name)


def test_doctor_asks_for_no_java_where_there_is_no_spark() -> None:
    found = java(has_spark=False)
    assert found.status == OK
    assert found.fix is None
