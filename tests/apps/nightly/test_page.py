"""The page of a night: what it says, that it is sound HTML, and that data are never markup."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import math
import re
import time
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from fastrank_eval._lib.errors import ArgumentError
from fastrank_eval.apps.nightly import page as page_module
from fastrank_eval.apps.nightly.night import (
    CurveLine,
    Finding,
    Night,
    NightQuality,
)
from fastrank_eval.apps.nightly.page import page
from fastrank_eval.apps.nightly.pages import Links
from fastrank_eval.engine.records import MeasureValue
from tests.support.html_elements import Element, elements
from tests.support.sample_nights import LAST, month

EVIL = (
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "javascript:alert(1)",
    "</style></title></textarea>--><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "a\x00b\x1b[31m\u202e\ud800\nc",
    "&lt;b&gt;<b>",
)


@pytest.fixture(scope="module")
def html() -> str:
    return page(month())


@pytest.fixture(scope="module")
def found(html: str) -> list[Element]:
    return elements(html)


def tiny(**changes: Any) -> Night:
    values = tuple(
        MeasureValue(
            model, part, "GAUC", 0.6, 100, 80, {}, 0.9, 0.95,
            se=0.01, ci_low=0.58, ci_high=0.62, effective_groups=90.0, by=by,
        )
        for model in ("a", "b")
        for by, part in ((None, "all"), ("slot", "slot=1"))
    )  # fmt: skip
    quality = NightQuality(1000, 100, 50, 0.05, 0.8, 0.2, 0.01)
    night = Night(
        dt.date(2026, 11, 19), "t", ("a", "b"), "a", ("GAUC",), ("logs",), "cmd", "1", 2.5,
        {"confidence": 0.9}, values, quality,
    )  # fmt: skip
    return replace(night, **changes)


def planted(thing: Any, evil: str) -> Any:
    """The same with a text in place of every text, but for kinds and statuses."""
    if isinstance(thing, str):
        return {"all": "all", "": ""}.get(thing, thing + evil)
    if is_dataclass(thing) and not isinstance(thing, type):
        kept = ("kind", "status")
        told = {
            f.name: planted(getattr(thing, f.name), evil)
            for f in fields(thing)
            if f.name not in kept
        }
        return replace(thing, **told)
    if isinstance(thing, Mapping):
        kinds = ("roc", "calibration")
        return {k if k in kinds else planted(k, evil): planted(v, evil) for k, v in thing.items()}
    if isinstance(thing, tuple):
        return tuple(planted(each, evil) for each in thing)
    return thing


def test_page__its_html__is_semantic(found: list[Element]) -> None:
    ids = [one.attributes["id"] for one in found if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    for one in found:
        for name in ("aria-labelledby", "data-table"):
            if name in one.attributes:
                assert one.attributes[name] in ids
        if one.tag == "use" or one.attributes.get("href", "").startswith("#"):
            assert one.attributes["href"].lstrip("#") in ids
    levels = [int(one.tag[1]) for one in found if re.fullmatch("h[1-6]", one.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert all("scope" in one.attributes for one in found if one.tag == "th")
    tables = [one for one in found if one.tag == "table"]
    assert len(tables) > 8
    assert all(one.children[0].tag == "caption" for one in tables)
    scrolls = [one for one in found if "scroll" in one.attributes.get("class", "").split()]
    assert all(one.attributes["tabindex"] == "0" for one in scrolls)
    assert all({"aria-label", "aria-labelledby"} & set(one.attributes) for one in scrolls)
    pictures = [one for one in found if one.tag == "svg"]
    assert all(
        one.attributes.get("aria-hidden") == "true" or one.attributes.get("aria-label")
        for one in pictures
    )
    skip = next(one for one in found if one.tag == "a")
    assert skip.attributes["href"] == "#main"


def test_page__its_policy__forbids_all_but_its_own_style_and_script(
    html: str, found: list[Element]
) -> None:
    metas = [one.attributes for one in found if one.tag == "meta"]
    (told,) = (m["content"] for m in metas if m.get("http-equiv") == "Content-Security-Policy")
    for tag in ("style", "script"):
        (text,) = re.findall(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in told
    assert told.startswith("default-src 'none'; ")
    assert "unsafe" not in told
    assert not [one for one in found if "style" in one.attributes]
    assert not [one for one in found if one.tag in ("link", "img", "iframe", "object", "base")]
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", html)
    assert "url(" not in html.replace("url(#", "")
    assert "@import" not in html


def test_page__of_a_month__small_and_fast() -> None:
    nights = month()
    seconds = []
    for _ in range(2):
        start = time.process_time()
        size = len(page(nights).encode())
        seconds.append(time.process_time() - start)
    assert size <= 3_000_000
    assert min(seconds) <= 3


@pytest.mark.parametrize(
    "kind, words",
    [("gate", "gate failed"), ("scores", "too few distinct scores"), ("drift", "drifted"),
     ("alarm", "changed"), ("undefined", "no value"), ("missing", "missing")],
)  # fmt: skip
def test_page__finding_of_any_kind__is_named(kind: str, words: str) -> None:
    condition = "GAUC < 1" * (kind == "gate")
    night = tiny(findings=(Finding(kind, condition, slice="all", detail="what"),))
    shown = page([night]).partition('<section id="findings"')[2].partition("</section>")[0]
    assert f">{words}<" in shown


def test_page__same_nights__same_bytes(html: str) -> None:
    assert page(month()) == html


def two_planted(text: str) -> str:
    """The page of two nights in which every text is this one."""
    first, last = month(8)[0], month(8)[-1]
    two = [
        replace(
            first,
            values=tuple(v for v in first.values if v.slice in ("all", "slot=1")),
            compared=(),
            date=LAST - dt.timedelta(days=1),
        ),
        replace(
            last,
            values=tuple(v for v in last.values if v.slice in ("all", "slot=1", "@rows<2")),
            compared=tuple(c for c in last.compared if c.slice in ("all", "slot=1")),
        ),
    ]
    nights = [planted(night, text) for night in two]
    nights[1] = replace(nights[1], periods={"week" + text: nights[1].values})
    return page(nights, note=text)


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return [one.tag for one in elements(two_planted("x"))]


@pytest.mark.parametrize("evil", EVIL)
def test_page__evil_texts__stay_texts(evil: str, expected: list[str]) -> None:
    html = two_planted(evil)
    html.encode()  # no lone surrogate
    found = elements(html)
    assert [one.tag for one in found] == expected
    for one in found:
        assert not [name for name in one.attributes if name.startswith("on")]
        for name in ("href", "src", "action"):
            assert one.attributes.get(name, "#").startswith("#")
    assert "\x00" not in html
    assert "\u202e" not in html
    if evil.isprintable():
        assert evil in next(one for one in found if one.tag == "h1").all_text()
        assert any(
            evil in one.all_text() for one in found if one.tag == "th" and one.within("tbody")
        )
        assert any(evil in one.attributes.get("aria-label", "") for one in found)


@pytest.mark.parametrize(
    "night",
    [
        tiny(),
        tiny(values=(), compared=(), measures=("GAUC",)),
        tiny(values=(), measures=(), models=(), baseline=None, sources=(), conventions={}),
        tiny(quality=NightQuality(0, 0, 0, math.nan, math.nan, math.nan, math.nan)),
        tiny(values=tuple(replace(v, value=math.nan, ci_low=math.nan) for v in tiny().values)),
        tiny(curves={"roc": (CurveLine("a", "a", (), ()),), "calibration": ()}),
        tiny(curves={"calibration": (CurveLine("a", "", (0.0, 0.5), (0.1, 0.4)),)}),
        tiny(models=tuple("abcdefghij")),
    ],
)
def test_page__of_little__is_whole(night: Night) -> None:
    found = elements(page([night]))
    assert [one for one in found if one.tag == "h2"]
    assert "nan" not in " ".join(one.text for one in found if one.tag not in ("style", "script"))


def test_page__in_a_folder__leads_to_the_nights_beside_it() -> None:
    links = Links(dt.date(2026, 11, 18), dt.date(2026, 11, 20))
    found = elements(page([tiny()], links=links))
    assert [one.attributes["href"] for one in found if one.tag == "a"][:4] == [
        "#main", "index.html", "2026-11-18.html", "2026-11-20.html",
    ]  # fmt: skip
    others = [one for one in found if one.tag == "a"][4:]
    assert all(one.attributes["href"].startswith("#") for one in others)


def test_page__two_of_one_date__the_later_counts() -> None:
    assert "second" in page([tiny(title="first"), tiny(title="second")])


def test_page__without_a_night__is_refused() -> None:
    with pytest.raises(ValueError, match="no night"):
        page([])


def test_page__without_its_libraries__names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_module, "find_spec", lambda name: None if name == "jinja2" else 1)
    with pytest.raises(ArgumentError, match=r"need jinja2, .*fastrank_eval\[report\]"):
        page([tiny()])


def test_page__sparklines__end_in_a_dot_only_where_the_night_has_a_value() -> None:
    nights = [tiny(date=LAST - dt.timedelta(days=ago)) for ago in (2, 1, 0)]
    assert '<circle cx="98"' in page(nights)
    nothing = tuple(replace(v, value=math.nan) for v in nights[-1].values)
    empty = page([*nights[:-1], replace(nights[-1], values=nothing)])
    sparks = re.findall(r'<svg class="spark.*?</svg>', empty)
    assert sparks
    assert not any("<circle" in spark for spark in sparks)
