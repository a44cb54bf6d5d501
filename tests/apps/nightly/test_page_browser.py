"""Pages in a real browser: Debian's Chromium, headless. Skipped where there is none."""

from __future__ import annotations

import math
import os
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fastrank_eval.apps.nightly.night import Finding
from fastrank_eval.apps.nightly.page import page as page_of
from fastrank_eval.apps.nightly.text import sentences
from tests.apps.nightly.test_web_view import StateSpec, web_of
from tests.support.sample_nights import BROKEN, LAST, MODELS, month

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
SCREENSHOTS = Path(__file__).parents[3] / "build" / "screenshots"
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 812}

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow("starts Chromium"),
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    with sync_api.sync_playwright() as playwright:
        # Its sandbox refuses root, which a container's only user may be.
        options = {"args": ["--no-sandbox", "--disable-dev-shm-usage"] if root else []}
        browser = playwright.chromium.launch(executable_path=CHROMIUM, **options)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "night.html"
    path.write_text(page_of(month()), encoding="utf-8")
    return path.as_uri()


@contextmanager
def opened(browser: Any, address: str, **options: Any) -> Iterator[Any]:
    """A page that may ask for nothing but itself, and must not complain."""
    context = browser.new_context(**{"viewport": DESKTOP, **options})
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address, wait_until="load")
    yield page
    assert said == []
    assert set(asked) == {address}
    context.close()


def shot(page: Any, name: str) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


def overflow(page: Any) -> int:
    return page.evaluate(
        "document.scrollingElement.scrollWidth - document.documentElement.clientWidth"
    )


def cells(page: Any, table: str, column: int) -> list[str]:
    return page.eval_on_selector_all(
        f"#{table} tbody tr", f"rows => rows.map(row => row.cells[{column}].textContent.trim())"
    )


def test_browser__page__loads_without_a_word_or_request(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        assert page.locator("h1").inner_text() == month()[-1].title
        assert page.evaluate("getComputedStyle(document.body).marginTop") == "0px"  # styled
        assert overflow(page) <= 0
        shot(page, "night-1280")
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        charts = page.locator("figure > svg")
        assert charts.count() == 9
        for at in range(charts.count()):
            box = charts.nth(at).bounding_box()
            assert box["width"] > 250
            assert box["height"] > 120
        clipped = page.evaluate(
            """() => [...document.querySelectorAll("figure > svg")].flatMap(svg => {
                const room = svg.getBoundingClientRect();
                return [...svg.querySelectorAll("text")].filter(text => {
                    const box = text.getBoundingClientRect();
                    return box.left < room.left - 1 || box.right > room.right + 1 ||
                        box.top < room.top - 1 || box.bottom > room.bottom + 1;
                }).map(text => text.textContent);
            })"""
        )
        assert clipped == []
        overlapping = page.evaluate(
            """() => [...document.querySelectorAll("figure > svg")].flatMap(svg => {
                const boxes = [...svg.querySelectorAll("text")].map(text =>
                    [text.textContent, text.getBoundingClientRect()]);
                return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([b, q]) =>
                    p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 &&
                    q.top < p.bottom - 1).map(([b]) => a + " over " + b));
            })"""
        )
        assert overlapping == []


def test_browser__sorting__by_click_and_by_keyboard__empty_cells_last(
    browser: Any, file: str
) -> None:
    with opened(browser, file) as page:
        head = page.locator("#slices-1 thead th").nth(2)
        assert cells(page, "slices-1", 0)[0] == BROKEN
        assert head.get_attribute("aria-sort") == "none"
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "descending"
        values = [float(text[:6]) for text in cells(page, "slices-1", 2)]
        assert values == sorted(values, reverse=True)
        head.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "ascending"
        values = [float(text[:6]) for text in cells(page, "slices-1", 2)]
        assert values == sorted(values)
        other = page.locator("#slices-1 thead th").first
        other.get_by_role("button").click()
        assert head.get_attribute("aria-sort") == "none"
        slots = [text for text in cells(page, "slices-1", 0) if text.startswith("slot=")]
        assert slots == sorted(slots, key=lambda text: int(text[5:]))
        button = page.locator("#headline-table thead th").nth(3).get_by_role("button")
        button.focus()
        for key, direction in (("Enter", "descending"), (" ", "ascending")):
            page.keyboard.press(key)
            head = page.locator("#headline-table thead th").nth(3)
            assert head.get_attribute("aria-sort") == direction
            assert cells(page, "headline-table", 3)[-4:] == ["–"] * 4


def test_browser__filter_and_keyboard__show_what_is_asked_for(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        assert page.locator(".skip").bounding_box()["x"] >= 0
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
        form = page.locator("form.filter").first
        seen = page.locator("#slices-1 tbody tr:visible")
        assert seen.count() == 150
        form.get_by_label("Slice contains").fill("COUNTRY=")
        assert seen.count() == 72
        form.get_by_label("Model").select_option(MODELS[1])
        assert seen.count() == 24
        form.get_by_label("only significant changes").check()
        assert 0 < seen.count() < 24
        assert form.locator("output").inner_text() == f"{seen.count()} of 150 rows"


def test_browser__narrow__no_page_wide_scrolling(browser: Any, file: str) -> None:
    with opened(browser, file, viewport=PHONE) as page:
        for width in (320, 768, PHONE["width"]):
            page.set_viewport_size({"width": width, "height": 812})
            assert overflow(page) <= 0, width
            page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
            assert overflow(page) <= 0, width
            page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = false; })")
        small = page.eval_on_selector_all(
            "button, select, input[type=search]",
            "all => all.filter(one => one.offsetParent && one.offsetHeight < 24).length",
        )
        assert small == 0
        shot(page, "night-375")
        assert page.evaluate("document.documentElement.scrollHeight") <= 8 * PHONE["height"]


HINTED = """() => [...document.querySelectorAll(".scroll.tall")].slice(0, 2).map(
    one => [one.scrollHeight > one.clientHeight + 1,
            getComputedStyle(one, "::after").content.includes("scrolls")])"""


def test_browser__tables__are_whole_or_say_that_they_scroll(browser: Any, file: str) -> None:
    for viewport, boxes in ((DESKTOP, [False, True]), (PHONE, [True, True])):
        with opened(browser, file, viewport=viewport) as page:
            assert page.evaluate(HINTED) == [[cut, cut] for cut in boxes]


def test_browser__slices_with_week_and_month__are_as_wide_as_their_box(
    browser: Any, tmp_path: Path
) -> None:
    *before, last = month()
    few = tuple(replace(v, warning="few_groups", groups_used=1_234_567) for v in last.values)
    merged = tuple(replace(v, ci_low=math.nan, ci_high=math.nan) for v in last.values)
    dates = tuple(night.date for night in (*before, last))
    last = replace(
        last, values=few, periods={"week": merged, "month": merged},
        period_nights={"week": dates[-7:], "month": dates},
    )  # fmt: skip
    path = tmp_path / "night.html"
    path.write_text(page_of([*before, last]), encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        cell = page.locator("#slices-1 tbody td").last
        assert cell.inner_text().split() == ["1,234,567", "few", "effective", "groups"]
        box = page.locator("#slices .scroll").first
        assert box.evaluate("one => one.scrollWidth - one.clientWidth") == 0
        one_line = "one => one.getClientRects().length"
        assert page.locator("#slices-1 tbody td.n small.i").first.evaluate(one_line) == 1


CONTRAST = """() => {
    const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const known = {};
    function rgb(colour) {
        return known[colour] ??= painted(colour);
    }
    function painted(colour) {
        paint.clearRect(0, 0, 1, 1);
        paint.fillStyle = colour;
        paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data];
    }
    function light([r, g, b]) {
        const [x, y, z] = [r, g, b].map(v => v / 255)
            .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    }
    function back(element) {
        for (let one = element; one; one = one.parentElement) {
            const found = rgb(getComputedStyle(one).backgroundColor);
            if (found[3] === 255) return found;
        }
        return [255, 255, 255, 255];
    }
    function ratio(a, b) {
        const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
        return (x + 0.05) / (y + 0.05);
    }
    const low = [];
    for (const one of document.querySelectorAll("body *:not(script)")) {
        const own = [...one.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || !one.getClientRects().length) continue;
        const svg = one instanceof SVGElement;
        const style = getComputedStyle(one);
        const found = ratio(rgb(svg ? style.fill : style.color), back(one));
        if (found < 4.5) low.push([one.tagName, one.textContent.slice(0, 20), found]);
    }
    const lines = "svg [stroke^='var(--model'], svg.spark polyline";
    for (const one of document.querySelectorAll(lines)) {
        const found = ratio(rgb(getComputedStyle(one).stroke), back(one));
        if (found < 3) low.push([one.tagName, one.getAttribute("stroke"), found]);
    }
    return low.slice(0, 10);
}"""


def test_browser__schemes__contrast_as_wcag_asks(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            back = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (back < "rgb(2") == (scheme == "dark"), back
            assert page.evaluate(CONTRAST) == []
        shot(page, "night-1280-dark")


def test_browser__everything_to_operate__has_a_name(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        nameless = page.evaluate(
            """() => [...document.querySelectorAll("a, button, input, select, summary")].filter(
                one => !one.textContent.trim() && !one.labels?.[0]?.textContent.trim()
            ).map(one => one.outerHTML)"""
        )
        assert nameless == []
        assert page.locator("main").count() == 1
        for wish, way in (("no-preference", "smooth"), ("reduce", "auto")):
            page.emulate_media(reduced_motion=wish)
            scrolling = page.evaluate("getComputedStyle(document.documentElement).scrollBehavior")
            assert scrolling == way
        assert page.get_by_role("navigation").count() == 1
        assert page.evaluate("document.documentElement.lang") == "en"


def printed_pages(page: Any, paper: str) -> int:
    content = page.pdf(format=paper, prefer_css_page_size=True)
    return len(re.findall(rb"/Type */Page\b", content))


def test_browser__print__one_page_unless_every_section_is_chosen(browser: Any, file: str) -> None:
    with opened(browser, file) as page:
        (shown,) = page.locator(".brief:visible, .choice:visible").all_inner_texts()
        assert shown.strip() == "Print every section, not one page"
        assert [printed_pages(page, paper) for paper in ("A4", "Letter")] == [1, 1]
        page.emulate_media(media="print")
        assert page.locator("#quality:visible, #gates:visible, .choice:visible").count() == 0
        assert page.locator("#headline-table:visible, #trends:visible, .brief:visible").count() == 3
        page.emulate_media(media="screen")
        page.get_by_label("Print every section").check()
        assert printed_pages(page, "A4") > 5


def test_browser__print__one_page_of_a_night_with_many_findings(
    browser: Any, tmp_path: Path
) -> None:
    *before, last = month()
    findings = tuple(
        Finding("gate", f"{measure} > 0", model, "slot", "slot=feed", measure, detail="x " * 70)
        for model in MODELS
        for measure in last.measures
    )
    last = replace(last, findings=findings)
    assert len(sentences(last)) > 4
    path = tmp_path / "night.html"
    path.write_text(page_of([*before, last]), encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        assert [printed_pages(page, paper) for paper in ("A4", "Letter")] == [1, 1]
        page.emulate_media(media="print")
        shown = page.locator(".banner p:visible").all_inner_texts()
        assert len(shown) == 4
        assert shown[-1] == "The screen shows more findings."


def test_browser__headline__fits_with_a_measure_of_a_long_name(
    browser: Any, tmp_path: Path
) -> None:
    *before, last = month()
    names = {"PCOC": "MultiECCE(columns='slot,country,age')"}
    last = replace(last, conventions={**last.conventions, "names": names})
    path = tmp_path / "night.html"
    path.write_text(page_of([*before, last]), encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        table = page.locator("#headline-table")
        assert names["PCOC"] in table.inner_text()
        assert table.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth")


def test_browser__phone__rows_of_wide_tables_are_cards(browser: Any, file: str) -> None:
    with opened(browser, file, viewport=PHONE) as page:
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        for table in page.locator("table.stack").all():
            assert table.evaluate("one => one.scrollWidth <= one.parentElement.clientWidth")
        assert page.locator("table.stack").count() >= 7
        row = page.locator("#slices-1 tbody tr").first
        cell = row.locator("td[data-l^='From baseline']")
        assert cell.evaluate("one => getComputedStyle(one, '::before').content") == (
            '"From baseline, ctr_prod"'
        )
        assert row.bounding_box()["width"] <= PHONE["width"]
        boxes = [one.bounding_box() for one in row.locator("th, td").all()]
        assert all(
            below["y"] >= above["y"] + above["height"] - 1 for above, below in pairwise(boxes)
        )


def test_browser__print__whole_tables_on_white(browser: Any, file: str) -> None:
    with opened(browser, file, color_scheme="dark") as page:
        page.locator("#print-all").check()
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
            "rgb(255, 255, 255)"
        )
        box = page.locator(".scroll.tall").first
        assert box.evaluate("one => one.scrollHeight - one.clientHeight") <= 1
        assert not page.locator(".contents").first.is_visible()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details.more:not([open])").count() == 0
        assert page.locator("figure details[open], figure summary:visible").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0


def test_browser__print__tables_fit_paper_and_can_repeat_their_heads(
    browser: Any, file: str
) -> None:
    paper = round((210 - 2 * 12) / 25.4 * 96)  # A4 within margins of 12 mm
    with opened(browser, file, viewport={"width": paper, "height": 1000}) as page:
        page.locator("#print-all").check()
        page.emulate_media(media="print")
        # Chromium leaves a button, which is a box of its own, out of heads that it repeats.
        buttons = "all => all.map(one => getComputedStyle(one).display)"
        assert set(page.eval_on_selector_all("th button", buttons)) == {"contents"}
        assert page.locator("th button .words:visible").count() > 10
        page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
        shot(page, "night-print")
        wrong = page.eval_on_selector_all(
            ".scroll",
            """all => all.filter(one => {
                const box = one.getBoundingClientRect();
                const inside = one.firstElementChild.getBoundingClientRect();
                return one.scrollWidth > one.clientWidth + 1 || inside.height < 20 ||
                    inside.bottom > box.bottom + 1;
            }).map(one => one.ariaLabel ?? one.getAttribute("aria-labelledby"))""",
        )
        assert wrong == []


def test_browser__without_scripts__everything_is_there(browser: Any, file: str) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=DESKTOP)
    page = context.new_page()
    page.goto(file)
    assert page.locator("#slices-1 tbody tr:visible").count() == 150
    assert page.locator("form.filter:visible").count() == 0
    assert page.locator("th button").count() == 0
    context.close()


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    import uvicorn

    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(web_of(StateSpec(month())), log_level="warning", lifespan="off")
    server = uvicorn.Server(config)
    # It draws in its own thread while the browser waits, and nothing else draws meanwhile.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.02)
    with closing(listening):
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.mark.parametrize(
    "name, path",
    [
        ("nights", "/"),
        ("slice", f"/slice?slice={BROKEN.replace('=', '%3D')}&measure=GAUC"),
        ("beside", f"/compare?first=2026-11-12&second={LAST}"),
    ],
)
def test_browser__web_view__each_page(browser: Any, served: str, name: str, path: str) -> None:
    with opened(browser, served + path) as page:
        assert overflow(page) <= 0
        assert page.evaluate(CONTRAST) == []
        shot(page, f"{name}-1280")
    with opened(browser, served + path, viewport=PHONE) as page:
        assert overflow(page) <= 0
        shot(page, f"{name}-375")


def test_browser__web_view__two_nights_are_chosen(browser: Any, served: str) -> None:
    context = browser.new_context(viewport=DESKTOP)
    page = context.new_page()
    page.goto(served)
    page.locator("select[name=first]").select_option("2026-11-12")
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/compare?first=2026-11-12&second=2026-11-19")
    page.get_by_role("link", name="All nights").click()
    page.get_by_role("link", name="2026-11-08").first.click()
    assert "Regression" in page.locator(".banner").inner_text()
    context.close()
