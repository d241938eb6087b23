"""The page of `plimsoll serve` in headless Chromium, with a real model.

Its screenshots are in the build folder's `page`.
"""

import json
import urllib.request

import pytest

from browser import Browser
from servers import BUILD_DIR, CALL_SECONDS, Front, until

N_CTX = 512
SCREENSHOTS = BUILD_DIR / "page"
DONE = "!document.querySelector('.pending') && document.querySelector('.reply .meta')?.textContent"
# The page itself never scrolls; its parts do.
FITS = """document.documentElement.scrollWidth <= innerWidth &&
  document.documentElement.scrollHeight <= innerHeight"""
# A reply of which the page shows everything.
ANSWER = """The load line is a mark on a ship's **hull**. It shows how deep the ship may lie:

1. in *fresh* water,
2. in the sea
   - in summer,
   - in winter.

| water | line |
|---|---:|
| fresh | `F` |
| summer | `S` |

```python
def fits(plan, budget):
    return plan <= budget
```

> No more than this. See [the history](https://example.com/line).
"""


@pytest.fixture(scope="module")
def browser():
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def server(smollm2, browser):
    with Front(str(smollm2), f"--n-ctx={N_CTX}", "--slots=2") as front:
        until(lambda: b"try: curl" in front.process.stdout.readline())
        yield front


@pytest.fixture
def page(browser, server):
    """A freshly opened page. Nothing may complain while a test runs."""
    browser.answers.clear()
    browser.call("Fetch.disable")
    browser.theme("light")
    browser.open(server.url)
    browser.until("document.querySelector('#state').dataset.state === 'ok'")
    browser.problems.clear()
    yield browser
    browser.pump(0.2)
    assert browser.problems == []


def status_of(server):
    url = f"{server.url}/plimsoll/status"
    with urllib.request.urlopen(url, timeout=CALL_SECONDS) as reply:
        return json.load(reply)


def say(page, text):
    page.run("document.querySelector('#input').focus()")
    page.write(text)
    page.key("Enter")


def set_settings(page, **fields):
    """Fills the dialog of settings and saves it."""
    page.click("#open-settings")
    page.until("document.querySelector('#settings').open")
    for name, value in fields.items():
        page.run(f"document.querySelector('[name={name}]').value = {json.dumps(value)}")
    page.click("#settings-form [type=submit]")


def can_chat(page, *deltas, finish="stop", **choice):
    """Has the next replies be these."""
    events = [{"choices": [{"index": 0, "delta": delta, **choice}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    usage = {"prompt_tokens": 40, "completion_tokens": 60, "total_tokens": 100}
    events.append({"choices": [], "usage": usage})
    body = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
    page.can("v1/chat/completions", body + "data: [DONE]\n\n", "text/event-stream")


def rendered(page, text):
    """The HTML that a text of a model becomes."""
    return page.run(f"""(async () => {{
      const {{renderMarkdown}} = await import(new URL("page/markdown.js", document.baseURI));
      const node = document.createElement("div");
      renderMarkdown(node, {json.dumps(text)});
      return node.innerHTML;
    }})()""")


def test_a_chat_is_streamed_and_the_bar_is_live(page, server):
    set_settings(page, temperature="0")
    # Each growth of the text, as it is drawn.
    page.run("""void new MutationObserver(() => {
      const length = document.querySelector(".reply > .prose")?.textContent.length;
      (window.lengths ??= new Set()).add(length);
    }).observe(document.querySelector("#messages"), {subtree: true, childList: true})""")
    say(page, "Name three colours of the rainbow and say where each is seen.")
    facts = page.until(DONE)
    assert "tokens" in facts and "tokens/s" in facts
    assert page.run("document.querySelector('.bubble').textContent").startswith("Name three")
    assert page.run("window.lengths.size") > 2
    assert "of 512 tokens of context" in page.run("document.querySelector('#context').textContent")

    status = status_of(server)
    (device,) = status["devices"]
    said = page.run("document.querySelector('.total').textContent")
    assert " of " in said and "stay free" in said
    widths = page.run("""[...document.querySelectorAll(".pair-of-bars .bar")].map(
      (bar) => [...bar.querySelectorAll(".stretch:not([hidden])")].map(
        (part) => part.getBoundingClientRect().width))""")
    bar = page.run("document.querySelector('.pair-of-bars .bar').getBoundingClientRect().width")
    planned, measured = map(sum, widths)
    largest = max(device["planned_bytes"], device["measured_bytes"], device["peak_bytes"])
    assert planned == pytest.approx(bar * device["planned_bytes"] / largest, abs=8)
    assert 0 < measured <= bar
    assert "load line" in page.run("document.querySelector('.line-text').textContent")
    # What was generated comes by the next look at the server.
    page.until(r"""/\b[1-9]\d* tokens generated/.test(
        document.querySelector(".model-view").innerText)""")
    assert "2 slots of 512 tokens" in page.run("document.querySelector('.facts').textContent")


def test_stop_ends_a_reply_and_frees_its_slot(page, server):
    set_settings(page, temperature="0")
    say(page, "Count from one to one thousand, in words, each on its own line.")
    page.until("document.querySelector('.reply > .prose')?.textContent.length > 5")
    assert page.run("document.querySelector('#send').textContent") == "Stop"
    page.click("#send")
    assert page.until(DONE).startswith("stopped")
    assert page.run("document.querySelector('#send').textContent") == "Send"
    until(lambda: status_of(server)["models"][0]["running"] == 0)
    # By the keyboard, too; and the chat goes on.
    say(page, "Go on.")
    page.until("document.querySelectorAll('.reply').length === 2 && document.querySelector("
               "'.reply:last-child > .prose')?.textContent.length > 5")
    page.key("Escape")
    page.until("!document.querySelector('.pending')")


def test_what_leaves_the_context_is_shown(page):
    set_settings(page, max_tokens="40", temperature="0")
    for n in range(8):
        say(page, f"Message {n}: " + "the ship lies deep in the water today. " * 18)
        page.until(f"document.querySelectorAll('.reply').length === {n + 1} && " + DONE)
        # What left is asked of the server then.
        page.pump(0.5)
        if page.run("!!document.querySelector('.left-note')"):
            break
    page.until("!!document.querySelector('.left, .partly-left')")
    assert "left the context" in page.run("document.querySelector('.left-note').textContent")
    marked = page.run("[...document.querySelectorAll('.message')].map((node) => "
                      "node.matches('.left, .partly-left'))")
    # What left is the oldest, but for the pinned tokens at the very beginning.
    assert marked[0] and sorted(marked, reverse=True) == marked
    assert page.run(FITS)
    page.run("document.querySelector('.left-note').scrollIntoView({block: 'center'})")
    page.screenshot(SCREENSHOTS / "left.png")


def test_reasoning_is_folded_and_calls_of_tools_get_results(page):
    can_chat(
        page, {"role": "assistant", "content": ""}, {"reasoning_content": "They ask of **rain**. "},
        {"reasoning_content": "A tool knows."},
        {"tool_calls": [{"index": 0, "id": "call_0", "type": "function",
                         "function": {"name": "weather", "arguments": "{\"city\":\"Wien\"}"}}]},
        finish="tool_calls")
    say(page, "Does it rain?")
    page.until(DONE)
    assert page.run("document.querySelector('.thought').open") is False
    assert page.run("document.querySelector('.thought .prose').textContent") == (
        "They ask of rain. A tool knows.")
    assert page.run("document.querySelector('.call').innerText").split("\n", 1)[0] == (
        "Calls weather")
    assert '"city": "Wien"' in page.run("document.querySelector('.call pre').textContent")
    page.screenshot(SCREENSHOTS / "tools.png")

    can_chat(page, {"content": "<think>Short.</think>Yes."})
    page.run("document.querySelector('.results textarea').focus()")
    page.write("rain")
    page.click(".results button")
    page.until("document.querySelectorAll('.reply').length === 2 && " + DONE)
    assert "rain" in page.run("document.querySelector('.tool-result').innerText")
    last = "document.querySelectorAll('.reply')[1]"
    assert page.run(f"{last}.querySelector(':scope > .prose').textContent") == "Yes."
    assert page.run(f"{last}.querySelector('.thought .prose').textContent") == "Short."


def test_an_error_is_said_and_tried_again(page):
    page.can("v1/chat/completions", 'data: {"error": {"message": "no room"}}\n\n',
             "text/event-stream")
    say(page, "Hello")
    assert "no room" in page.until("document.querySelector('.failure')?.innerText")
    can_chat(page, {"content": "Good day."})
    page.click(".failure button")
    page.until("document.querySelector('.reply')?.textContent.includes('Good day.')")
    assert not page.run("document.querySelector('.failure')")


def test_settings_are_sent(page):
    set_settings(page, tools="{")
    assert "Tools" in page.until("document.querySelector('#settings-error').textContent")
    page.screenshot(SCREENSHOTS / "settings.png")
    page.click("#settings-cancel")
    set_settings(page, system="You are a captain.", max_tokens="3")
    page.until("!document.querySelector('#settings').open")
    say(page, "Who are you?")
    facts = page.until(DONE)
    assert "3 tokens" in facts and "cut off" in facts


def test_the_page_is_used_by_keys_alone(page):
    assert page.run("document.activeElement.id") == "input"
    page.write("one")
    page.key("Enter", shift=True)
    page.write("two")
    assert page.run("document.querySelector('#input').value") == "one\ntwo"
    reached = []
    for _ in range(16):
        page.key("Tab")
        reached.append(page.run("document.activeElement.id"))
    wanted = ["send", "model", "new", "open-settings", "log", "input"]
    assert [one for one in reached if one in wanted][:len(wanted)] == wanted


def test_markdown_becomes_elements(page):
    html = rendered(page, ANSWER)
    assert "<strong>hull</strong>" in html and "<em>fresh</em>" in html
    assert html.count("<li>") == 4 and "<ol start=\"1\">" in html
    assert "<td class=\"right\"><code>F</code></td>" in html
    assert "<pre tabindex=\"0\"><code>def fits(plan, budget):\n    return" in html
    assert ('<a href="https://example.com/line" title="https://example.com/line" '
            'target="_blank" rel="noopener noreferrer">the history</a>') in html
    assert rendered(page, "***a*** b_c_d 2 * 3 * 4") == (
        "<p><strong><em>a</em></strong> b_c_d 2 * 3 * 4</p>")
    assert rendered(page, "- a\n\n  ```\n  x\n  ```\n- b").count("<li>") == 2
    assert rendered(page, "# T\nx\n\n---\n") == "<h3>T</h3><p>x</p><hr>"
    assert "http://a.example/b_c" in rendered(page, "see http://a.example/b_c.")


@pytest.mark.parametrize("text", [
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "[a](javascript:alert(1)) <javascript:alert(1)> [b](data:text/html,x)",
    "[a](  JaVaScRiPt:alert(1)) ![x](https://example.com/x.png) [c](/relative)",
    "```html\n<iframe src=//example.com></iframe>\n```",
    "| <b>x</b> |\n|---|\n| <svg onload=alert(1)> |",
])
def test_hostile_markdown_stays_text(page, text):
    rendered(page, text)
    found = page.run(f"""(async () => {{
      const {{renderMarkdown}} = await import(new URL("page/markdown.js", document.baseURI));
      const node = document.createElement("div");
      renderMarkdown(node, {json.dumps(text)});
      return [...node.querySelectorAll("*")].map((e) => [e.tagName, e.protocol ?? ""]);
    }})()""")
    for tag, protocol in found:
        assert tag not in ("SCRIPT", "IMG", "IFRAME", "SVG", "B")
        assert protocol in ("", "http:", "https:")


@pytest.mark.parametrize("unit", [
    "*", "_", "**a ", "[", "](", "`", "``a`", "<", "> ", "- ", "#", "|-", "![", "http://",
    "1. ", "~~", "*a _b ", "\n> - ",
])
def test_hostile_markdown_takes_no_time(page, unit):
    text = json.dumps(unit * (60_000 // len(unit)))
    seconds = page.run(f"""(async () => {{
      const {{renderMarkdown}} = await import(new URL("page/markdown.js", document.baseURI));
      const begin = performance.now();
      renderMarkdown(document.createElement("div"), {text});
      return (performance.now() - begin) / 1000;
    }})()""")
    assert seconds < 5, unit


CONTRASTS = """[...document.querySelectorAll(
  ".prose, .bubble, .meta, .keys, .state, .total, .legend th, .line-text, button, summary, .prose a")]
  .filter((node) => node.checkVisibility() && node.textContent.trim())
  .map((node) => {
    const parts = (color) => color.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map((c) => c / 255)
      .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0);
    let behind = node;
    while (behind.parentElement && (parts(getComputedStyle(behind).backgroundColor)[3] ?? 1) === 0) {
      behind = behind.parentElement;
    }
    const pair = [getComputedStyle(node).color, getComputedStyle(behind).backgroundColor]
      .map(parts).map(light).sort((a, b) => b - a);
    return [node.className || node.tagName, (pair[0] + 0.05) / (pair[1] + 0.05)];
  })"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_both_themes_and_a_phone_look_right(page, theme):
    page.theme(theme)
    page.screenshot(SCREENSHOTS / f"{theme}-empty.png")
    can_chat(page, {"reasoning_content": "What is it for?"}, {"content": ANSWER})
    say(page, "What is a load line?")
    page.until(DONE)
    for name, ratio in page.run(CONTRASTS):
        assert ratio >= 4.5, name
    page.screenshot(SCREENSHOTS / f"{theme}-wide.png")
    page.resize(390, 844, is_phone=True)
    assert page.run(FITS)
    page.screenshot(SCREENSHOTS / f"{theme}-phone.png")
    assert page.run("document.querySelector('#memory').checkVisibility()") is False
    page.click("#open-memory")
    assert page.run("document.querySelector('#memory').checkVisibility()") is True
    assert page.run("document.querySelector('main').checkVisibility()") is False
    assert page.run(FITS)
    page.screenshot(SCREENSHOTS / f"{theme}-phone-memory.png")
