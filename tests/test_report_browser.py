"""Reports in headless Chromium: every chart is drawn, nothing is asked of the network, nothing runs off a narrow screen."""

import shutil
from pathlib import Path

import pytest
from conftest import Filler
from report_by_hand import AFTER, BEFORE, many, trouble

from catalog.__main__ import main
from catalog.open import blank
from catalog.report import file_name, write_all, write_report

CHROMIUM = Path("/usr/bin/chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there: apt-get install chromium"),
]
DRAWN = "document.querySelectorAll('.chart').length === document.querySelectorAll('.chart[data-drawn]').length"
WITHOUT_MARKS = """[...document.querySelectorAll('.chart')].filter((box) =>
    !box.querySelector('svg .mark-rect path, svg .mark-symbol path, svg .mark-rule line')).map((box) => box.id)"""
OFF_SCREEN = """[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1
    && !e.closest('.scroll, pre, figure')).map((e) => e.tagName + ' ' + e.className)"""
PALE = "(at) => [...document.querySelectorAll('.chart')][at].querySelectorAll('[opacity=\"0.25\"]').length"


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium; Playwright's own cannot be downloaded where tests run offline."""
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-background-networking"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The README's pair, a pair of hostile names, sixty tasks, and an index."""
    folder = tmp_path_factory.mktemp("pages")
    assert main(["report", "large-base", "large-domain", "-o", str(folder / "shipped.html")]) == 0
    con, wide = blank(), blank()
    trouble(Filler(con))
    many(Filler(wide))
    write_report(wide, "org/A", "org/B", "own", folder / "sixty.html")
    write_all(con, None, folder / "all")
    shutil.copy(folder / "all" / file_name(BEFORE, AFTER), folder / "hostile.html")
    return folder


@pytest.fixture
def opened(browser, pages):
    """Open a page; whatever the console or the network hears fails the test."""
    heard, contexts = [], []

    def open_page(name, width=1200, **more):
        contexts.append(browser.new_context(viewport={"width": width, "height": 900}, **more))
        page = contexts[-1].new_page()
        page.on("console", lambda message: heard.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or heard.append(f"request: {request.url}"))
        page.goto((pages / name).as_uri())
        page.wait_for_function(DRAWN, timeout=30_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert heard == []


@pytest.mark.parametrize("name, n_charts", [("shipped.html", 12), ("hostile.html", 20), ("sixty.html", 4)])
@pytest.mark.parametrize("width", [1200, 390])
def test_drawn_and_within_the_screen(opened, name, n_charts, width):
    """Every chart has marks; the page is never wider than the screen."""
    page = opened(name, width)
    assert page.locator(".chart svg").count() == n_charts and page.evaluate(WITHOUT_MARKS) == []
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") == width and page.evaluate(OFF_SCREEN) == []
    svg, box = (page.locator(selector).first.bounding_box() for selector in (".chart svg", ".chart"))
    assert 0.9 * box["width"] < svg["width"] <= box["width"] + 1 and (width == 390 or svg["width"] > 800)


def test_hostile_names_do_not_run(opened):
    """No script of a name ran, no image of one was made, and the names are read as they are."""
    page = opened("hostile.html")
    assert page.evaluate("window.owned") is None and page.locator("img").count() == 0
    assert BEFORE in page.locator("dd").first.inner_text()
    page.locator(".chart .mark-rect path").first.hover()
    page.wait_for_selector("#vg-tooltip-element.visible")
    assert "<script>" in page.locator("#vg-tooltip-element").inner_text() and page.evaluate("window.owned") is None
    index = opened("all/index.html")
    index.locator("a[href$='.html']").first.click()
    index.wait_for_url(f"**/{file_name(BEFORE, AFTER)}")
    index.wait_for_selector(".chart[data-drawn]")
    index.wait_for_function(DRAWN)
    assert index.evaluate("window.owned") is None and index.locator(".chart svg").count() == 20


def test_an_injected_script_would_not_run(browser, pages, tmp_path):
    """The policy of the page is in force: a script that is not one of its two is refused, and so is a request."""
    text = (pages / "shipped.html").read_text(encoding="utf-8")
    (tmp_path / "bad.html").write_text(text.replace("<h1>", "<script>window.owned=1</script><img src='https://example.org/x.png'><h1>", 1))
    context = browser.new_context()
    page, heard = context.new_page(), []
    page.on("console", lambda message: heard.append(message.text))
    page.goto((tmp_path / "bad.html").as_uri())
    page.wait_for_function(DRAWN)
    assert page.evaluate("window.owned") is None and sum("Content Security Policy" in line for line in heard) == 2
    context.close()


def test_a_click_finds_the_category_everywhere(opened):
    """A click on a bar fades the other categories in all charts by category; the same click again ends it."""
    page = opened("shipped.html")
    assert page.evaluate(PALE, 0) == 0
    page.locator("#c0q .mark-rect path").first.click()
    page.wait_for_function(f"({PALE})(0) > 0 && ({PALE})(2) > 0")
    assert page.evaluate(PALE, 3) == 0  # tasks are no categories
    page.locator("#c0q .mark-rect path").first.click()
    page.wait_for_function(f"({PALE})(0) === 0 && ({PALE})(2) === 0")


def test_dark(opened):
    """A dark page where the system is dark, with text that can be read on it: also in the charts."""
    colour = "(selector) => getComputedStyle(document.querySelector(selector)).%s"
    for scheme, lightest, darkest in (("dark", 60, 150), ("light", 255, 120)):
        page = opened("shipped.html", color_scheme=scheme)
        ground = channels(page.evaluate(colour % "backgroundColor", "body"))
        ink = channels(page.evaluate(colour % "fill", ".chart svg .role-axis-label text"))
        assert (ground < lightest and ink > darkest) if scheme == "dark" else (ground == lightest and ink < darkest)


def channels(text):
    """Mean of the three channels of 'rgb(1, 2, 3)'."""
    return sum(float(value) for value in text[text.index("(") + 1 : -1].split(",")[:3]) / 3


def test_printed(opened):
    """On paper: light, tables open, queries closed, some pages; after it tables are closed again."""
    page = opened("shipped.html", color_scheme="dark")
    assert page.locator("details[open]").count() == 0
    page.evaluate(
        "window.seen = null; addEventListener('beforeprint', () => { seen = document.querySelectorAll('details[open]').length; })"
    )
    printed = page.pdf(format="A4")
    assert printed.startswith(b"%PDF") and 5 <= printed.count(b"/Type /Page\n") + printed.count(b"/Type /Page ") <= 20
    assert page.evaluate("seen") == 12 + 3 and page.locator("details[open]").count() == 0
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_script(browser, pages):
    """Where scripts are off, that is said, and every chart's table is there."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((pages / "shipped.html").as_uri())
    assert page.locator("noscript p").is_visible() and page.locator("details table").count() == 12 + 3
    context.close()
