"""Headless Chromium for tests: the system's own package, driven through playwright, with everything it does recorded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Record:
    """What a page did: every request but the page itself, and everything it complained about."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser with a new profile, or a skip that says what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, so pages are not opened in a browser")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("Chromium is not installed, so pages are not opened in a browser; install the system's package.")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, headless=True, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any, file: Path, *, width: int = 1280, height: int = 900, scheme: str = "light", script: bool = True
) -> Iterator[tuple[Any, Record]]:
    """A file opened from disk, and the record of what it did."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, java_script_enabled=script)
    record, page = Record(), context.new_page()
    address = file.resolve().as_uri()
    page.on("request", lambda request: record.requests.append(request.url) if request.url != address else None)
    page.on("console", lambda message: record.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: record.complaints.append(f"error: {error}"))
    try:
        page.goto(address)
        yield page, record
    finally:
        context.close()


def overflow(page: Any) -> int:
    """Pixels by which a page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))
