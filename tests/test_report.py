"""Reports: what the page says is what the SQL says; bad input is said plainly and never becomes part of the page."""

import base64
import hashlib
import html
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import Filler
from report_by_hand import AFTER, BEFORE, CATEGORY, HOSTILE, LEFT_OUT, SETTING, many, trouble

from catalog import CatalogError, connect, report_page
from catalog.__main__ import main
from catalog.compare import percent, texts_of
from catalog.items import itemsets, read_items
from catalog.open import blank
from catalog.output import records
from catalog.report import file_name, page_of, write_all, write_report
from catalog.report_data import ask
from catalog.report_parts import body

ITEMS = Path(__file__).parent.parent / "collect" / "demo" / "items.jsonl"
NO_SCRIPT = "/* Vega is not needed to read the page */"


class Elements(HTMLParser):
    """Every element of a page, its attributes, and the text of scripts and of what is preformatted."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts, self.pre, self.attributes, self.open = [], [], [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open = tag
        if tag == "script":
            self.scripts.append([dict(attrs), ""])
        if tag == "pre":
            self.pre.append("")

    def handle_data(self, data):
        if self.open == "script":
            self.scripts[-1][1] += data
        if self.open == "pre":
            self.pre[-1] += data

    def handle_endtag(self, tag):
        self.open = None

    @property
    def specs(self):
        """Vega-Lite specs by id."""
        return {a["id"]: json.loads(text) for a, text in self.scripts if a.get("type") == "application/json"}


@pytest.fixture(scope="module")
def catalog_by_hand():
    """A catalog of a pair with every kind of trouble."""
    con = blank()
    trouble(Filler(con))
    return con


@pytest.fixture(scope="module")
def pair(catalog_by_hand):
    """What a page of it says: seconds to plan, so once."""
    return ask(catalog_by_hand, BEFORE, AFTER, "mine")


@pytest.fixture
def asked(monkeypatch, pair, catalog_by_hand):
    """Commands open the catalog by hand, find the pair answered and its page drawn."""
    monkeypatch.setattr("catalog.open.connect", lambda *_, **__: catalog_by_hand)
    monkeypatch.setattr("catalog.report.ask", lambda con, *names: pair if names[1] == AFTER else ask(con, *names))
    monkeypatch.setattr("catalog.report.page_of", lambda *_: "a page")
    return catalog_by_hand


@pytest.fixture(scope="module")
def page(pair):
    """The page of the catalog by hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_page, "vega", lambda: NO_SCRIPT)
        return page_of(pair, {}, 3)


def section_of(page, setting):
    """A setting's headline and its section, text only."""
    (link,) = re.findall(rf'<h3><a href="#(s\d)">{re.escape(html.escape(setting))}</a></h3>', page)
    words = page.split(f'<a href="#{link}">', 1)[1].split("</p>", 1)[0]
    return words, page.split(f'<h2 id="{link}">', 1)[1].split("</section>", 1)[0]


def test_lost_and_gained_by_hand(page):
    """30 of 40 right before, 10 after: 15 moved to a wrong option (C = 4/3), 5 became unreadable; both replicates are the same."""
    words, section = section_of(page, SETTING)
    assert "Of 40 items in 1 task, 2 replicates, it lost <strong>50.0% [" in words and "gained <strong>0.0% [" in words
    assert "accuracy went from 75.0% to 25.0%" in words
    assert f"Beyond both models' own noise: lost <strong>{100 * (15 * 4 / 3 + 5) / 40} [" in words
    assert "The gain may be nothing: its interval reaches 0." in words and "Unchecked" not in words
    specs = Elements(page).specs
    shares = {row["what"]: row["share"] for row in specs["c0q-spec"]["data"]["values"]}
    assert shares == pytest.approx({"kept": 25, "forgotten": 50, "gained": 0, "never": 25})
    lost, gained = specs["c0b-spec"]["data"]["values"]
    assert (lost["value"], lost["raw"], lost["ceiling"]) == pytest.approx((62.5, 50, 100 * (30 / 40 - 10 / 40 / 3)))
    assert gained["raw"] == 0 and lost["low"] < 62.5 < lost["high"]
    assert {row["part"]: row["value"] for row in specs["c0p-spec"]["data"]["values"]} == pytest.approx(
        {"own noise": 0, "not readable": 12.5, "the rest": 37.5}
    )
    assert "<strong>1 of 1</strong> have q below .05" in section and f"{2 * 0.5**20:.2g}" in section
    assert "20 items forgotten in at least one replicate" in section and section.count("2 of 2") == 3 and "The first 3 by key" in section


def test_order_by_hand(page):
    """Models, warnings, words, then a section a setting, then assumptions and queries."""
    parts = ["What did it forget", "Before you read on", "Of 40 items", 'id="s0"', "What became of the items", "Forgotten and gained, by category",
             "Noise, format, and the rest", "Tasks that moved", "Forgotten items", 'id="s1"', "What the numbers assume", "The queries"]  # fmt: skip
    places = [page.index(part) for part in parts]
    assert places == sorted(places) and len(re.findall(r'<h2 id="s\d">', page)) == 6
    assert page.count('class="chart"') == page.count("The numbers of this chart") == 6 * 3 + 2  # 2 settings have a task that moved


def test_trouble_is_said(page):
    """One item in one replicate, several golds, nothing changed, two options, few items in common."""
    words, section = section_of(page, "one")
    assert (
        "Of 1 item in 1 task, 1 replicate, it lost <strong>100.0% [20.7, 100.0]</strong>" in words and "<strong>Unchecked</strong>" in words
    )
    assert "not to be ranked: Lone" in section and "No task moved with q below .05" in section
    assert "own noise: Lone." in section and "how much is noise is not known" in section and "1 item forgotten." in section
    words, section = section_of(page, "several")
    assert "Beyond luck: not known for these items" in words and "Not known beyond luck, tick only: Several" in section
    assert "No item was forgotten." in section
    words, _ = section_of(page, "same")
    assert "Beyond both models' own noise: lost <strong>0.0 [" in words
    assert "The loss and the gain may be nothing: their intervals reach 0." in words
    assert "Beyond both models' own noise: lost <strong>50.0 [" in section_of(page, "two")[0]  # F, for f_exch_x needs 3 options
    assert "Of 20 items in 10 tasks" in section_of(page, "few")[0]
    top = page[: page.index("Of 40 items")]
    assert "only 2 items are common to the 4 before and the 4 after" in top and "3 more" in top and "shots 0 before, 5 after" in top
    assert "<code>--items FILES</code>" in page


def test_nothing_is_fetched(page):
    """No address but namespaces and names of schemas, no element that loads, and a policy that allows these scripts only."""
    read = Elements(page)
    assert not {"img", "iframe", "object", "embed", "base", "video", "audio"} & set(read.tags)
    assert all(value == "data:," or value.startswith("#") for name, value in read.attributes if name in ("src", "href"))
    policy = next(v for n, v in read.attributes if n == "content" and "default-src" in v)
    run = [text for attributes, text in read.scripts if not attributes.get("type")]
    hashes = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in run]
    assert len(run) == 2 and f"script-src {' '.join(hashes)};" in policy and "default-src 'none'" in policy and "unsafe-eval" not in policy


def test_hostile_names(page, catalog_by_hand):
    """HTML, quotes and slashes in names of models, settings and categories stay text, in the page, its data, its SQL and its file name."""
    assert HOSTILE not in page and html.escape(HOSTILE) in page and html.escape(SETTING) in page
    read = Elements(page)
    assert not {"img", "b"} & set(read.tags) and read.tags.count("script") == 2 + len(read.specs) == 2 + 20
    assert {row["category"] for row in read.specs["c0q-spec"]["data"]["values"]} == {CATEGORY}
    assert not any("<" in text for attributes, text in read.scripts if attributes.get("type"))
    assert len(catalog_by_hand.execute(read.pre[2]).fetchall()) == 15 and len(catalog_by_hand.execute(read.pre[3]).fetchall()) == 41
    assert re.fullmatch(r"[a-z0-9.-]+", file_name(BEFORE, AFTER)) and file_name(BEFORE, AFTER) != file_name(AFTER, BEFORE)
    assert file_name("a/x_y", "b") != file_name("a/x-y", "b") and len(file_name("m" * 500, "n" * 500)) < 120


def test_texts_of_items(asked, pair, tmp_path):
    """The user's own text stands under its key, escaped, with the right option and the one given after; foreign files are refused."""
    row = {
        "task": "x",
        "subset": "t",
        "item_id": "<i>7",
        "question": "Is 1 < 2 & <b>3</b>?",
        "choices": ["<u>yes", "no", "maybe", "when"],
        "answer_index": 0,
    }
    own = tmp_path / "own.jsonl"
    own.write_text(json.dumps(row), encoding="utf-8")
    key = itemsets(read_items([own])[0])[0].keys[0]
    lost = {"setting": SETTING, "task_id": "x/t", "sample_key": key, "lost": 2, "n": 2, "predicted": 2}
    here = {name: [row for row in rows if row["setting"] == SETTING] for name, rows in pair.rows.items()}
    here["forgotten"].insert(0, lost)
    page = body(replace(pair, rows=here), texts_of([own]), 3)
    assert "Is 1 &lt; 2 &amp; &lt;b&gt;3&lt;/b&gt;?" in page and "The text of 1 is in the given files." in page
    assert '<li class="gold">&lt;u&gt;yes <span class="tag">right</span></li>' in page and 'maybe <span class="tag">after</span>' in page
    with pytest.raises(CatalogError, match="none of the 41 forgotten items is in"):
        write_report(asked, BEFORE, AFTER, "mine", tmp_path / "none.html", [own])
    assert not (tmp_path / "none.html").exists()


def test_nothing_is_written_where_it_fails(asked, tmp_path, monkeypatch):
    """No common item: an error. A disk that fails: the page that was there stays whole, and nothing is left beside it."""
    out = tmp_path / "report.html"
    with pytest.raises(CatalogError, match="cannot be paired: they share no task"):
        write_report(asked, BEFORE, LEFT_OUT, "mine", out)
    assert not out.exists()
    out.write_text("whole")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(asked, BEFORE, AFTER, "mine", out)
    assert out.read_text() == "whole" and [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_index_of_all_pairs(asked, tmp_path, capsys):
    """A row for each pair and setting, links that lead to pages, and the pairs without a page with their reason."""
    out = tmp_path / "new" / "pages"
    assert main(["report", "--all", "-o", str(out)]) == 0
    assert "they share no task" in capsys.readouterr().err
    index = (out / "index.html").read_text(encoding="utf-8")
    links = {value for name, value in Elements(index).attributes if name == "href" and value.endswith(".html")}
    assert links == {file_name(BEFORE, AFTER)} and {p.name for p in out.iterdir()} == {"index.html", *links}
    assert index.count("</tr>") == 1 + 6 and "<td>62.5 [" in index and "<td>50.0</td>" in index and "<td>unchecked</td>" in index
    assert HOSTILE not in index and "they share no task" in index and "<script" not in index
    assert main(["report", "--all", "-o", str(out)]) == 0 and [p.name for p in out.parent.iterdir()] == [
        "pages"
    ]  # again, in the same folder


def test_bad_input_of_the_command(asked, capsys, tmp_path, monkeypatch):
    """One model, none, --all with models, a folder for a file, a file for a folder, no pair, an empty catalog: what is wanted is said."""
    for words in ([], ["A"], ["A", "B", "--all"]):
        with pytest.raises(SystemExit) as error:
            main(["report", *words])
        assert error.value.code == 2 and "give two models" in capsys.readouterr().err
    assert main(["report", BEFORE, AFTER, "-o", str(tmp_path)]) == 1
    assert "is a folder: wanted a file" in capsys.readouterr().err
    assert main(["report", BEFORE, BEFORE]) == 1
    assert "are the same model" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert main(["report", "--all", "-o", str(tmp_path / "file")]) == 1
    assert "is a file: wanted a folder" in capsys.readouterr().err
    monkeypatch.setattr("catalog.open.connect", lambda *_, **__: blank())
    assert main(["report", "A", "B"]) == 1
    assert "the catalog holds no models" in capsys.readouterr().err
    assert main(["report", "--all", "-o", str(tmp_path / "all")]) == 1
    assert "no pair is declared" in capsys.readouterr().err and not (tmp_path / "all").exists()


def test_no_pair_can_be_compared(fill, con, tmp_path):
    """An index of nothing is not written."""
    for model, task in (("A", "x/t"), ("B", "x/u")):
        fill.task(task, [4])
        fill.answers(model, task, "0")
    fill.pair()
    with pytest.raises(CatalogError, match=r"none of the 1 declared pair can be compared:\n  A → B: .*share no task"):
        write_all(con, None, tmp_path / "none")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def con_shipped():
    return connect()


@pytest.fixture(scope="module")
def ids(con_shipped):
    query = "SELECT before_id, after_id FROM pairs WHERE pair_id = 'large-base -> large-domain'"
    return con_shipped.sql(query).fetchall()[0]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """The page of the README's pair, as the command writes it, with the demo's texts."""
    out = tmp_path_factory.mktemp("report") / "deep" / "r.html"
    assert main(["report", "large-base", "large-domain", "-o", str(out), "--items", str(ITEMS), "--limit", "3"]) == 0
    assert [p.name for p in out.parent.iterdir()] == ["r.html"]
    return out.read_text(encoding="utf-8")


@pytest.mark.slow
def test_headline_is_the_sql(shipped, con_shipped, ids):
    """Every number of the first sentences, with its interval, is a cell of pair_metrics; without replicates they say unchecked."""
    rows = records(con_shipped.sql("FROM pair_metrics_of($1, $2) WHERE map = 'own' ORDER BY setting", params=ids))
    assert len(rows) == 3
    for row in rows:
        for name in ("f", "bt", "f_exch_x", "bt_exch_x") if row["n_exch_x"] else ("f", "bt", "f_known", "bt_known"):
            sign = "%" if name in ("f", "bt") else ""
            assert f"<strong>{percent(row[name])}{sign} [{percent(row[f'{name}_lo'])}, {percent(row[f'{name}_hi'])}]</strong>" in shipped
    assert "on the 358 of 488 items where that can be told" in shipped and shipped.count("<strong>Unchecked</strong>") == 2
    assert "Of 488 items in 11 tasks, 3 replicates" in shipped and "(mean of 7 categories)" in shipped


@pytest.mark.slow
def test_order_of_the_page(shipped):
    """Models, warnings, words, then a section a setting, then assumptions and queries."""
    first = shipped.index('id="s0"')
    parts = ["large-base@", "asked the same items", "Of 488 items", 'id="s0"', "What became of the items", "Forgotten and gained, by category",
             "Noise, format, and the rest", "Tasks that moved", "Forgotten items"]  # fmt: skip
    places = [shipped.index(part) if at < 4 else shipped.index(part, first) for at, part in enumerate(parts)]
    places += [shipped.index("What the numbers assume"), shipped.index("The queries")]
    assert places == sorted(places) and len(re.findall(r'<h2 id="s\d">', shipped)) == 3
    assert "0 in expectation when nothing changed" in shipped


@pytest.mark.slow
def test_charts_hold_the_rows(shipped, con_shipped, ids):
    """Bars, intervals, raw ticks and ceilings of every category of a setting; parts of F sum to F; a table behind every chart."""
    page = Elements(shipped)
    assert list(page.specs) == [f"c{at}{kind}-spec" for at in range(3) for kind in "qbpt"] and shipped.count('class="chart"') == 12
    rows = records(con_shipped.sql("FROM category_metrics_of($1, $2) WHERE map = 'own' AND setting = 'cot' ORDER BY category", params=ids))
    bars = page.specs["c0q-spec"]["data"]["values"]
    kept = {b["category"]: b["share"] for b in bars if b["what"] == "kept"}
    assert kept == pytest.approx({r["category"]: 100 * (r["a_pre"] - r["f"]) for r in rows})
    lost = {b["category"]: b for b in page.specs["c0b-spec"]["data"]["values"] if b["what"] == "forgotten"}
    assert [lost[r["category"]]["ceiling"] for r in rows] == pytest.approx([100 * r["f_max"] for r in rows])
    assert [lost[r["category"]]["raw"] for r in rows] == pytest.approx([100 * r["f"] for r in rows])
    part_of = page.specs["c0p-spec"]["data"]["values"]
    assert [sum(p["value"] for p in part_of if p["category"] == r["category"]) for r in rows] == pytest.approx([100 * r["f"] for r in rows])
    assert {p["part"] for p in part_of} == {"own noise", "not readable", "the rest"}
    assert {p["part"] for p in page.specs["c1p-spec"]["data"]["values"]} == {"not readable", "wrong, noise unknown"}
    assert shipped.count("The numbers of this chart") == 12 and f">{percent(rows[1]['f_max'])}<" in shipped


@pytest.mark.slow
def test_tasks_that_moved(shipped, con_shipped, ids):
    """Only q below .05, by q, of the number of tests that were made; what McNemar cannot see is said."""
    moved = con_shipped.sql(
        "SELECT task_id FROM task_tests_of($1, $2) WHERE setting = 'cot' AND mcnemar_q < .05 ORDER BY mcnemar_q, task_id", params=ids
    )
    drawn = [row["task"] for row in Elements(shipped).specs["c0t-spec"]["data"]["values"]]
    assert drawn == [task for (task,) in moved.fetchall()] and len(drawn) == 6
    assert "<strong>6 of 11</strong> have q below .05" in shipped and "exact test of <em>net</em> change in 11 tasks" in shipped


@pytest.mark.slow
def test_forgotten_items_with_text(shipped, con_shipped, ids):
    """The user's own files give question, options, the right one and the one given after; --limit entries a setting."""
    assert shipped.count('<div class="question">') == 3 * 3
    key, predicted = con_shipped.sql("""SELECT sample_key, mode(after_predicted) FROM transitions($1, $2) WHERE setting = 'cot'
        GROUP BY task_id, sample_key HAVING bool_and(transition = '1->0') ORDER BY task_id, sample_key LIMIT 1""", params=ids).fetchall()[0]  # fmt: skip
    entry = shipped[shipped.index(key) :].split("</ol>", 1)[0]
    options = re.findall(r"<li[^>]*>(.*?)</li>", entry)
    assert "after" in options[predicted] and sum("right" in option for option in options) == 1


@pytest.mark.slow
def test_the_sql_shown_is_the_sql_used(shipped, con_shipped, ids):
    """Every query on the page runs as it stands and gives rows of this pair."""
    shown = Elements(shipped).pre
    assert len(shown) == 4
    for sql in shown:
        rows = records(con_shipped.sql(sql))
        assert rows and all(name in sql for name in ids)
    assert len(records(con_shipped.sql(shown[0]))) == 3


@pytest.mark.slow
def test_sixty_tasks_stay_small(fill, con):
    """A page of 60 tasks and as many categories stays under 2 MB, Vega included."""
    many(fill)
    page = page_of(ask(con, "org/A", "org/B", "own"), {}, 20)
    assert 800_000 < len(page.encode()) < 2_000_000 and "<strong>30 of 60</strong> have q below .05" in page
