"""Chromium without a window, as Debian has it. Where it is missing, these tests are skipped and say so.

The headless shell draws nothing but pages. The whole Chromium also works, with several times the CPU.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

CHROMIUM = next(filter(None, map(shutil.which, ("chromium-headless-shell", "chromium", "chromium-browser"))), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Of a module: while it is open its driver has a loop, beside which no async test runs."""
    if CHROMIUM is None:
        pytest.skip("chromium is not installed: apt-get install chromium-headless-shell")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield browser
        browser.close()


@dataclass
class Window:
    """A window of the browser, with what went wrong in it and what it asked for elsewhere."""

    page: Page
    address: str
    wrong: list[str] = field(default_factory=list)

    def go(self, path: str) -> None:
        self.page.goto(self.address + path)
        self.page.wait_for_selector("#pulse.on, body:not([data-live])", state="attached")


@dataclass
class Windows:
    """Opens windows, and at its end says what went wrong in any."""

    browser: Browser
    opened: list[Window] = field(default_factory=list)

    def open(self, address: str, wide: int = 1280, scheme: str = "light", *, scripts: bool = True) -> Window:
        size: ViewportSize = {"width": wide, "height": 860}
        context = self.browser.new_context(
            viewport=size,
            color_scheme="dark" if scheme == "dark" else "light",
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        window = Window(context.new_page(), address)
        page = window.page
        page.on("console", lambda said: window.wrong.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: window.wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(address) else window.wrong.append(asked.url))
        self.opened.append(window)
        return window

    def close(self) -> list[str]:
        for window in self.opened:
            window.page.context.close()
        return [text for window in self.opened for text in window.wrong]


@pytest.fixture
def windows(chromium: Browser) -> Iterator[Windows]:
    found = Windows(chromium)
    yield found
    assert found.close() == [], "errors in the console's log, or requests to elsewhere"
