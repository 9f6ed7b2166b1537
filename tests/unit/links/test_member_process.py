"""A member describes its process in a text; a text of any other form is that of a plain consumer."""

from __future__ import annotations

import pytest

from actors.links.member_process import kind_and_process, kind_on_node, said


def test_what_is_said_is_understood() -> None:
    assert said("consumer", 7) == "consumer pid 7"
    pool = said(kind_on_node("pool", "9510e81edd52ffff"), 4711)
    assert pool == "pool pid 4711 on node 9510e81edd52"
    assert kind_and_process(pool) == ("pool", "pid 4711 on node 9510e81edd52")
    deployed = said(kind_on_node("pool", "9510e81edd52ffff", 3), 4711)
    assert kind_and_process(deployed) == ("pool", "pid 4711 on node 9510e81edd52 version 3")
    assert kind_and_process(said("spark", 8)) == ("spark", "pid 8")


@pytest.mark.parametrize(
    "text",
    ["", "<script>", "pool", "Pool pid 7", "pool pid 7\n", "pool pid x", "pool pid 7 or", "pool pid 7 version x"],
)
def test_anything_else_is_a_consumers(text: str) -> None:
    assert kind_and_process(text) == ("consumer", "")
