"""The page of `plimsoll serve --tokens` in headless Chromium."""

import json

import pytest

from browser import Browser
from security.test_security import tokens  # noqa: F401 (a fixture)
from servers import Front

STATE = "document.querySelector('#state')?.dataset.state"
ASKS = "document.querySelector('#token').open"
COMPLAINT = "document.querySelector('#token .error').textContent"
HAS_TOKEN = "!document.querySelector('#forget').hidden"
ANSWERED = "document.querySelector('.reply .meta')?.textContent"


@pytest.fixture
def page(smollm2, tokens):  # noqa: F811
    """The page, freshly opened; it has no token."""
    flags = (*tokens.flag(), "--n-ctx=512", "--slots=2")
    with Browser() as browser, Front(str(smollm2), *flags) as front:
        browser.open(front.url)
        yield browser


def give(page, token):
    """Types a token into the dialog."""
    page.until(ASKS)
    page.run("document.querySelector('#token input').focus()")
    page.write(token)
    page.key("Enter")


def test_the_page_asks_for_a_token_and_chats_with_it(page, tokens):  # noqa: F811
    page.until(f"{STATE} === 'locked'")
    assert not page.run(HAS_TOKEN) and page.run(COMPLAINT) == ""
    give(page, "plimsoll_wrong")
    page.until(f"{ASKS} && {COMPLAINT}.includes('wrong')")
    give(page, tokens.of["u"])
    page.until(f"{STATE} === 'ok'")
    assert not page.run(ASKS) and page.run(HAS_TOKEN)
    page.run("document.querySelector('#input').focus()")
    page.write("Hello")
    page.key("Enter")
    assert "tokens" in page.until(ANSWERED)
    # The tab keeps it, and nothing else does.
    page.run("window.isOld = true; location.reload()")
    page.until(f"!window.isOld && {STATE} === 'ok'")
    kept = page.run("JSON.stringify([{...localStorage}, document.cookie])")
    assert json.loads(kept) == [{}, ""]


# Requests without a token are answered only when the test says so.
HOLD_TOKENLESS = """
  window.held = [];
  const ask = window.fetch;
  window.fetch = (path, options) => options.headers.Authorization
      ? ask(path, options)
      : new Promise((answer) => held.push(() => answer(ask(path, options))));
"""


def test_a_late_refusal_does_not_refuse_the_token_that_was_given(page, tokens):  # noqa: F811
    page.until(f"{STATE} === 'locked' && {ASKS}")
    page.run(f"(() => {{ {HOLD_TOKENLESS} }})()")
    page.until("held.length > 0")
    give(page, tokens.of["u"])
    page.until(HAS_TOKEN)
    page.run("held.forEach((answer) => answer())")
    page.until(f"{STATE} === 'ok'")
    assert not page.run(ASKS) and page.run(HAS_TOKEN)


def test_a_token_is_forgotten(page, tokens):  # noqa: F811
    give(page, tokens.of["u"])
    page.until(f"{STATE} === 'ok'")
    page.click("#forget")
    page.until(f"{STATE} === 'locked' && {ASKS}")
    assert not page.run(HAS_TOKEN)
    assert page.run("sessionStorage.length") == 0


def test_a_role_that_is_too_low_is_told_so(page, tokens):  # noqa: F811
    give(page, tokens.of["v"])
    page.until(f"{STATE} === 'ok'")  # a viewer may look
    page.run("document.querySelector('#input').focus()")
    page.write("Hello")
    page.key("Enter")
    page.until("document.querySelector('#messages').textContent.includes('role')")
