"""Chromium under Playwright, through the sandbox's proxy: python3 browser_agent.py URL..."""

import json
import os
import sys
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

profile = Path("/tmp/browser")
profile.mkdir()
# The proxy rejects a TLS client that hides the server's name, which Chromium pretends to do unless this option turns it
# off.
(profile / "Local State").write_text(json.dumps({"ssl": {"ech_enabled": False}}))
with sync_playwright() as playwright:
    browser = playwright.chromium.launch_persistent_context(
        profile,
        executable_path="/usr/lib/chromium/chromium",
        chromium_sandbox=False,  # it is confined already, and may make no namespaces of its own
        ignore_https_errors=True,  # it does not know the session's authority; the proxy checks the real server
        args=["--disable-gpu"],
        proxy={"server": os.environ["HTTPS_PROXY"]},
    )
    page = browser.new_page()
    for url in sys.argv[1:]:
        try:
            page.goto(url, timeout=20_000)
            print(url, page.title())
        except Error as error:
            print(url, error.message.splitlines()[0])
    browser.close()
