"""Tokens are judged at once, or when the keys have been read. SECURITY.md, B.4."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.broker.entrance import tokens as tokens_module
from actors.broker.entrance.tokens import Tokens
from actors.security.jwks import Keys, read_keys
from actors.security.oauth import Bearer, TokenError, TokenRules
from tests.support.tokens import NOW, everything, jwk, jwks, token


class Source:
    """Keys, and new ones as soon as the test says so."""

    def __init__(self) -> None:
        self.keys: Keys = read_keys(everything())
        self.may_go_on = asyncio.Event()
        self.sought = 0

    async def look_for_unknown(self) -> None:
        self.sought += 1
        await self.may_go_on.wait()
        self.keys = read_keys(jwks(jwk("RSA", "new")))

    def close(self) -> None: ...


def judge(source: Any) -> Tokens:
    return Tokens(TokenRules(), source, lambda: NOW * 1000)


async def test_a_token_by_a_known_key_is_judged_at_once() -> None:
    source, found = Source(), list[Any]()
    made = judge(source)
    made.judge(token(), found.append)
    made.judge("rubbish", found.append)
    assert found[0] == Bearer("anne", 3_600_000)
    assert isinstance(found[1], TokenError)
    assert source.sought == 0


@pytest.mark.conformance("XB-29")
async def test_64_tokens_wait_for_an_unknown_key_and_others_are_refused() -> None:
    source, found = Source(), list[Any]()
    made = judge(source)
    for _ in range(66):
        made.judge(token(kid="new"), found.append)
    assert [str(each) for each in found] == ["a token with an unknown key"] * 2
    source.may_go_on.set()
    await asyncio.gather(*made.waiting)
    assert found[2:] == [Bearer("anne", 3_600_000)] * 64
    found.clear()
    made.judge(token(kid="another"), found.append)
    await asyncio.gather(*made.waiting)
    assert isinstance(found[0], TokenError)


@pytest.mark.conformance("XB-06")
async def test_a_fault_of_ours_is_logged_without_the_token(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Bearer:
        raise KeyError

    monkeypatch.setattr(tokens_module, "check_token", broken)
    found: list[Any] = []
    text = token()
    judge(Source()).judge(text, found.append)
    assert found == [None]
    assert "could not be judged" in caplog.text
    assert text not in caplog.text


async def test_who_stops_judges_no_more() -> None:
    source, found = Source(), list[Any]()
    made = judge(source)
    made.judge(token(kid="new"), found.append)
    (waiting,) = made.waiting
    made.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert found == []
