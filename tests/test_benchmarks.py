"""Benchmark loaders on invented rows in the published column shapes: mapping, refusals, order of options, choice of tasks."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from datasets import Dataset
from hub import Hub
from test_collect import CHAT, SMALL

from catalog import CatalogError, connect
from catalog.items import fits, itemsets
from collect.__main__ import main
from collect.benchmarks import BENCHMARKS
from collect.benchmarks.choosing import chosen_items
from collect.benchmarks.listing import constants, listing, paper_categories
from collect.benchmarks.loading import finished, mapped, tasks_named
from collect.cards import BEHAVIOURAL
from collect.config import Plan, read_plan

BY_NAME = {benchmark.name: benchmark for benchmark in BENCHMARKS}
HELLASWAG = {
    "ind": 4, "activity_label": "Baking", "ctx_a": "[header] How to bake [title] Mix flour.", "ctx_b": "the baker", "ctx": "", "source_id": "x", "split": "val",
    "endings": ["waits [step] for the dough.", "sings.", "leaves.", "sleeps."], "label": "2", "split_type": "indomain",
}  # fmt: skip
GPQA = {
    "Question": "Which {braces}?",
    "Correct Answer": "right",
    "Incorrect Answer 1": "a",
    "Incorrect Answer 2": "b",
    "Incorrect Answer 3": "c",
    "Record ID": "rec1",
}
MCTEST = {"idx": {"story": 0, "question": 1}, "question": "Who?", "story": r"Ann ran.\newlineBob sat.", "properties": {"author": "x"},
          "answer_options": {"A": "Ann", "B": "Bob", "C": "Cid", "D": "Dee"}, "answer": "B", "question_is_multiple": True}  # fmt: skip
MATHQA = {
    "Problem": "1 + 1 ?",
    "Rationale": "",
    "options": "a ) 1 , b ) 1 , 000 , c ) 2 , d ) none , e ) all of these",
    "correct": "c",
    "category": "gain",
}
SALAD = {
    "mcq": "Choose the unsafe ones.\nA. a; b\nB. c\nC. d",
    "baseq": "q",
    "choices": "A. a; b; B. c; C. d;",
    "gt": "BC",
    "1-category": "O1: x",
}
# (task, row as published, question, options, gold)
ROWS = [
    ("mmlu/anatomy", {"question": "Q?", "subject": "anatomy", "choices": ["R", "r", "None", ""], "answer": 3}, "Q?", ("R", "r", "None", ""), (3,)),
    ("bbh/snarks", {"input": "Which?\nOptions:\n(A) One\n(B) Two (B)\nlines", "target": "(B)"}, "Which?", ("One", "Two (B)\nlines"), (1,)),
    ("bbh/formal_fallacies", {"input": "Valid?\nOptions:\n- valid \n- invalid", "target": "invalid"}, "Valid?", ("valid", "invalid"), (1,)),
    ("bbh/boolean_expressions", {"input": "not False is", "target": "True"}, "not False is", ("False", "True"), (1,)),
    ("bbh/web_of_lies", {"input": "Lies?", "target": "No"}, "Lies?", ("Yes", "No"), (1,)),
    ("bbh/sports_understanding", {"input": "Plausible?", "target": "no"}, "Plausible?", ("yes", "no"), (1,)),
    ("bbh/object_counting", {"input": "How many?", "target": "8"}, "How many?", (), ("8",)),
    ("gpqa/diamond", GPQA, "Which {braces}?", ("right", "a", "b", "c"), (0,)),
    ("musr/object_placements", {"narrative": "N.", "question": "Q?", "choices": "['desk', \"Ann's bag\"]", "answer_index": 1, "answer_choice": "x"},
     "N.\n\nQ?", ("desk", "Ann's bag"), (1,)),
    ("arc/challenge", {"id": "M_1", "question": "Q?", "choices": {"text": ["R", "rr", "RR"], "label": ["1", "2", "3"]}, "answerKey": "3"},
     "Q?", ("R", "rr", "RR"), (2,)),
    ("truthfulqa/mc1", {"question": "Q?", "mc1_targets": {"choices": ["yes", "no", "no"], "labels": [1, 0, 0]}, "mc2_targets": {"choices": [], "labels": []}},
     "Q?", ("yes", "no", "no"), (0,)),
    ("hellaswag/main", HELLASWAG, "Baking: How to bake. Mix flour. The baker", ("waits for the dough.", "sings.", "leaves.", "sleeps."), (2,)),
    ("social_iqa/main", {"context": "Ann ran.", "question": "Why?", "answerA": "a", "answerB": "b", "answerC": "c", "label": "3"},
     "Ann ran.\nWhy?", ("a", "b", "c"), (2,)),
    ("mctest/main", MCTEST, "Ann ran.\nBob sat.\n\nWho?", ("Ann", "Bob", "Cid", "Dee"), (1,)),
    ("piqa/main", {"goal": "G", "sol1": "a", "sol2": "b", "label": 1}, "G", ("a", "b"), (1,)),
    ("commonsense_qa/main", {"id": "h1", "question": "Q?", "question_concept": "c", "choices": {"label": list("ABCDE"), "text": list("vwxyz")}, "answerKey": "B"},
     "Q?", tuple("vwxyz"), (1,)),
    ("salad_bench/mrq", SALAD, "Choose the unsafe ones.", ("a; b", "c", "d"), (1, 2)),
    ("gsm8k/main", {"question": "Q?", "answer": "1 + 1 = 2.\n#### 2,125"}, "Q?", (), ("2,125",)),
    ("boolq/main", {"question": "is it", "answer": False, "passage": "P."}, "P.\nis it", ("no", "yes"), (0,)),
    ("winogrande/main", {"sentence": "Ann _ ran.", "option1": "a", "option2": "b", "answer": "2"}, "Ann _ ran.", ("a", "b"), (1,)),
    ("mathqa/main", MATHQA, "1 + 1 ?", ("1", "1 , 000", "2", "none", "all of these"), (2,)),
    ("race/high", {"example_id": "high1.txt", "article": "A.", "answer": "D", "question": "Q _ .", "options": list("wxyz")}, "A.\n\nQ _ .", tuple("wxyz"), (3,)),
]  # fmt: skip


def named(task_id):
    """Benchmark and task of that name."""
    return tasks_named(task_id)[0]


def loaded(task_id, rows, config="", skip_bad=False, revision="c0"):
    """Items of a task from rows of the Hub dataset."""
    benchmark, task = named(task_id)
    return finished(benchmark, task, mapped(benchmark, task, Dataset.from_list(rows), config), revision, skip_bad)


@pytest.mark.parametrize(("task_id", "row", "question", "choices", "gold"), ROWS, ids=[row[0] for row in ROWS])
def test_a_row_becomes_an_item(task_id, row, question, choices, gold):
    """Question, options in published order and gold of every benchmark; where the row came from goes with it."""
    (item,), left_out = loaded(task_id, [row])
    assert (item.task_id, item.question, item.choices, item.gold, left_out) == (task_id, question, choices, gold, [])
    benchmark, task = named(task_id)
    assert (item.source, item.source_revision, item.split, item.category) == (benchmark.hub, "c0", task.split, task.category)
    assert item.permutation_seed == (0 if task_id in ("truthfulqa/mc1", "gpqa/diamond") else None)


def test_every_benchmark_has_a_row_here():
    """None of the seventeen is left untested."""
    assert {row[0].split("/")[0] for row in ROWS} == BY_NAME.keys() and len(BENCHMARKS) == 17


def test_ids():
    """The source's own id where it has one; else the row's number, with the configuration where there are two."""
    assert [i.source_id for i in loaded("arc/easy", [ROWS[9][1]])[0]] == ["M_1"]
    assert [i.source_id for i in loaded("piqa/main", [{"goal": g, "sol1": "a", "sol2": "b", "label": 0} for g in "xy"])[0]] == ["0", "1"]
    assert [i.source_id for i in loaded("mctest/main", [MCTEST], "mc160")[0]] == ["mc160-0"]


def test_equal_rows_stay_two_items():
    """Duplicates are published, some with another gold: each is an item, told apart by its occurrence."""
    row = {"context": "Ann ran.", "question": "Why?", "answerA": "a", "answerB": "b", "answerC": "c", "label": "3"}
    items, _ = loaded("social_iqa/main", [row, row, {**row, "label": "1"}])
    (found,) = itemsets(items)
    assert len(set(found.keys)) == 3 and [key[-2:] for key in found.keys] == ["#0", "#1", "#0"]


def test_several_golds_are_multi_though_one_has_one():
    """Chance is no 1/k where several may be right, so every item of the task says multi."""
    items, _ = loaded("salad_bench/mrq", [SALAD, {**SALAD, "gt": "A"}])
    assert [(item.answer, item.gold) for item in items] == [("multi", (1, 2)), ("multi", (0,))]


def snarks(n, one_option_at):
    """Rows of bbh/snarks, one of them with one option."""
    return [{"input": f"Which {i}?\nOptions:\n(A) x" + ("\n(B) y" if i != one_option_at else ""), "target": "(A)"} for i in range(n)]


def test_refused_by_id():
    """A row known to be unusable is left out with its reason; another one stops the run, or is left out on demand."""
    items, left_out = loaded("bbh/snarks", snarks(90, 88))
    assert len(items) == 89 and left_out == ["bbh/snarks 88: it has one option"]
    with pytest.raises(CatalogError, match=r"(?s)1 items of bbh/snarks cannot be used:.*row 7: item 7.*1 option.*--skip-bad"):
        loaded("bbh/snarks", snarks(9, 7))
    items, left_out = loaded("bbh/snarks", snarks(9, 7), skip_bad=True)
    assert len(items) == 8 and "item 7" in left_out[0]


def test_rows_in_another_order_are_noticed():
    """A refused id whose row is sound: the refusals were written for another order."""
    with pytest.raises(CatalogError, match=r"item 88 of bbh/snarks is refused by id .it has one option., but this one is sound"):
        loaded("bbh/snarks", snarks(90, None))


@pytest.mark.parametrize(
    ("task_id", "row", "message"),
    [
        ("bbh/ruin_names", {"input": "Which?\nOptions:\n(A) earth\n(B) wind", "target": "earth, wind"}, "answer_index None is not one of its 2 options"),
        ("hellaswag/main", {**HELLASWAG, "label": ""}, "answer_index None"),
        ("arc/easy", {**ROWS[9][1], "answerKey": "E"}, "answer_index None"),
        ("mathqa/main", {**MATHQA, "options": "a ) 1 , b ) 2"}, "answer_index 2 is not one of its 2 options"),
        ("mmlu/anatomy", {"question": " ", "choices": ["a", "b"], "answer": 0}, "no question"),
    ],
)  # fmt: skip
def test_rows_that_cannot_be_asked(task_id, row, message):
    """An unlabelled row, a gold that is no option, options that cannot be told apart: refused with row and id."""
    with pytest.raises(CatalogError, match=f"(?s)row 0: item .* of .*{message}"):
        loaded(task_id, [row])


def test_patterns():
    """A benchmark, a task, a wildcard."""
    assert len(tasks_named("mmlu")) == len(tasks_named("mmlu/*")) == 57 and len(tasks_named("bbh")) == 27
    assert [b.task_id(task) for b, task in tasks_named("arc/ch*")] == ["arc/challenge"]
    assert len(tasks_named("*")) == sum(len(b.tasks) for b in BENCHMARKS) == 103 and not tasks_named("mml")
    assert fits("a/b", "*") and not fits("a/b", "b")


def test_categories_are_the_papers_where_it_has_one():
    """Our own map agrees with the paper's on its 94 tasks; behavioural tasks are those of Safety/Truth."""
    own = {b.task_id(task): task.category for b in BENCHMARKS for task in b.tasks}
    assert len(paper_categories()) == 94 and {task: own[task] for task in paper_categories()} == paper_categories()
    assert {task for task, category in own.items() if category == "Safety/Truth"} == BEHAVIOURAL


def test_revisions_are_commits_or_none():
    """Forty hex digits, or nothing: what is not known is looked up, never invented. Every task has its constants."""
    assert all(b.revision is None or re.fullmatch("[0-9a-f]{40}", b.revision) for b in BENCHMARKS)
    assert {b.name for b in BENCHMARKS if b.revision is None} == {"mctest", "salad_bench", "mathqa"}
    assert {b.task_id(task) for b in BENCHMARKS for task in b.tasks} == constants().keys()
    assert {b.name for b in BENCHMARKS if b.refused} == {"bbh"} and sum(int(r["n_refused"]) for r in constants().values()) == 4


def test_collect_tasks(capsys):
    """A row a task; what is stated is not called measured; an unknown name says what there is."""
    assert main(["tasks", "gpqa", "bbh/snarks"]) == 0
    out = capsys.readouterr()
    assert "gpqa/diamond,198,0,stated,4,Science/Tech,Science/Tech,train,CC-BY-4.0,Idavidrein/gpqa," in out.out
    assert "bbh/snarks,177,1,measured,2:177,Language,Language" in out.out and "2 tasks, 375 items" in out.err
    assert main(["tasks", "nope"]) == 1 and "no task fits nope; benchmarks are mmlu, bbh" in capsys.readouterr().err
    assert len(listing([])) == 103


def table():
    """The table of docs/benchmarks.md: a line a benchmark."""
    lines = [
        "| benchmark | tasks | items | options | split | Hub dataset | revision | licence | paper |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for b in BENCHMARKS:
        rows = [constants()[b.task_id(task)] for task in b.tasks]
        numbers = [int(k) for row in rows for part in row["options"].split() for k in part.split(":")[0].split("-") if k != "free"]
        options = f"{min(numbers)}-{max(numbers)}" if len(set(numbers)) > 1 else str(*set(numbers))
        free = sum(row["options"].startswith("free") for row in rows)
        options += f"{', ' if options else ''}{free if len(rows) > 1 else ''} free-form".replace("  ", " ") if free else ""
        stated = " (stated)" if any(row["counted"] == "stated" for row in rows) else ""
        splits, revision = ", ".join(dict.fromkeys(task.split for task in b.tasks)), f"`{b.revision[:8]}`" if b.revision else "at first use"
        items = f"{sum(int(row['n_items']) for row in rows):,}{stated}"
        lines.append(
            f"| {b.name} | {len(rows)} | {items} | {options.strip()} | {splits} | {b.hub} | {revision} | {b.licence} | {b.paper} |"
        )
    return lines


def test_the_table_in_the_docs():
    """Written by hand once, held to the benchmarks' files and constants ever since."""
    text = (Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "\n".join(table()) in text


# ---- a local folder, and a plan ------------------------------------------------


def folder(tmp_path, n=6, **tasks):
    """A folder as from_jsonl takes it: invented items of piqa and truthfulqa."""
    for name, subset, choices in (("piqa", "validation", ["a", "b"]), ("truthfulqa", "mc1", ["t", "f", "g"])):
        (tmp_path / "items" / name).mkdir(parents=True, exist_ok=True)
        lines = [
            {"task": name, "subset": subset, "item_id": str(i), "question": f"{name} {i}?", "choices": choices, "answer_index": 0}
            for i in range(n)
        ]
        (tmp_path / "items" / name / f"{subset}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return tmp_path / "items"


def plan_file(tmp_path, text):
    """A plan of one model with its beginning."""
    (tmp_path / "plan.toml").write_text(f'{text}\n[[models]]\nname = "m"\npath = "{SMALL}"\n', encoding="utf-8")
    return tmp_path / "plan.toml"


def test_a_plan_reads_benchmarks_from_a_folder(tmp_path):
    """Recorded with category, split and order of options; options of a task with a recorded order are shown shuffled."""
    folder(tmp_path)
    plan = plan_file(
        tmp_path, 'tasks = ["piqa", "truthfulqa/mc1"]\nfrom_jsonl = "items"\nsample = 4\nprotocols = [{ style = "option-letter" }]'
    )
    assert main(["run", str(plan), "--out", str(tmp_path / "runs")]) == 0
    con = connect(tmp_path / "runs")
    query = "SELECT task_id, split, n_items, permutation_seed, option_order FROM itemsets JOIN runs USING (itemset_id) JOIN protocols USING (protocol_id) ORDER BY ALL"
    assert con.sql(query).fetchall() == [
        ("piqa/main", "validation", 4, None, "published"),
        ("truthfulqa/mc1", "validation", 4, 0, "shuffled"),
    ]
    assert con.sql("SELECT task_id, category FROM categories WHERE map = 'own' ORDER BY ALL").fetchall() == [
        ("piqa/main", "Common Sense"),
        ("truthfulqa/mc1", "Safety/Truth"),
    ]


def test_own_items_come_first(tmp_path):
    """A task the plan's items hold is theirs, without the benchmark's category; what nothing holds is named."""
    own = folder(tmp_path)
    plan = Plan([], [], [own], ["piqa/*"])
    items, _ = chosen_items(plan, print)
    assert len(items) == 6 and {item.category for item in items} == {None}
    plan.from_jsonl = own
    assert {item.category for item in chosen_items(plan, print)[0]} == {"Common Sense"}
    plan.tasks = ["piqa/*", "pipa/*"]
    with pytest.raises(CatalogError, match=r"no task fits pipa/\*"):
        chosen_items(plan, print)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('tasks = ["arc"]\nfrom_jsonl = "items"', "no items of arc/easy in .*items: it has no arc/.*jsonl"),
        ('tasks = ["piqa"]\nfrom_jsonl = "nowhere"', "no folder at .*nowhere"),
        ('tasks = ["world/sums"]\nfrom_jsonl = "items"', "wants tasks of benchmarks, found world/sums"),
        ('tasks = ["piqa"]\nlimit = 3\nsample = 3', "limit and sample mean the same"),
    ],
)
def test_plans_that_cannot_be_read(tmp_path, capfd, text, message):
    """Each says what was wanted, found, and what to type."""
    folder(tmp_path)
    assert main(["run", str(plan_file(tmp_path, text)), "--out", str(tmp_path / "runs")]) == 1
    assert re.search(message, capfd.readouterr().err.replace("\n", " ")) and not (tmp_path / "runs").exists()


def test_protocols_by_kind_and_task(tmp_path):
    """The first that fits a model and a task under one setting; others are asked as ever."""
    folder(tmp_path, n=3)
    text = f"""
        tasks = ["piqa", "truthfulqa"]
        from_jsonl = "items"
        skip_behavioural = true
        models = [{{ name = "b", path = "{SMALL}", kind = "base" }}, {{ name = "i", path = "{CHAT}", kind = "instruct" }}, {{ name = "j", path = "{CHAT}", id = "x/j", kind = "instruct" }}]
        pairs = [{{ before = "b", after = "i" }}, {{ before = "i", after = "j" }}]
        protocols = [
            {{ style = "option-letter", setting = "s", kinds = ["base"], tasks = ["piqa"] }},
            {{ style = "option-text", setting = "s", kinds = ["base", "instruct"] }},
        ]"""
    (tmp_path / "plan.toml").write_text(text, encoding="utf-8")
    assert [m.behavioural for m in read_plan(tmp_path / "plan.toml").models] == [False, True, True]
    assert main(["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "runs")]) == 0
    found = connect(tmp_path / "runs").sql(
        "SELECT models.kind, task_id, setting, count(*) FROM runs JOIN models USING (model_id) JOIN itemsets USING (itemset_id) "
        "JOIN protocols USING (protocol_id) GROUP BY ALL ORDER BY ALL"
    )
    assert found.fetchall() == [
        ("base", "piqa/main", "s", 1),
        *(("instruct", task, f"s-{how}", 2) for task in ("piqa/main", "truthfulqa/mc1") for how in ("norm", "sum")),
    ]


# ---- the Hub -------------------------------------------------------------------

FROM_HUB = """
import dataclasses, json, sys
from catalog import CatalogError
from collect.benchmarks.loading import benchmark_items, tasks_named
chosen = [(dataclasses.replace(b, branch="main"), task) for b, task in tasks_named(sys.argv[1])]
said = []
try:
    items, _ = benchmark_items(chosen, None, False, said.append)
    print(json.dumps([said, [[i.source_id, i.question, i.choices, i.gold, i.source, i.source_revision] for i in items]]))
except CatalogError as error:
    print(json.dumps(str(error)))
"""


def from_hub(server, home, name):
    """What a new process reads of a benchmark from the Hub."""
    env = {**os.environ, **server.environment(home)}
    done = subprocess.run([sys.executable, "-c", FROM_HUB, name], env=env, capture_output=True, text=True, check=True, timeout=100)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_from_the_hub(tmp_path):
    """The real client against a small Hub: a revision that is not pinned is looked up, said and recorded; what is not there is named."""
    Dataset.from_list([MATHQA, {**MATHQA, "correct": "a"}]).to_parquet(tmp_path / "0000.parquet")
    with Hub() as server:
        commit = server.commit("allenai/math_qa", {"default/test/0000.parquet": (tmp_path / "0000.parquet").read_bytes()})
        said, items = from_hub(server, tmp_path / "hf", "mathqa")
        assert said == [f"allenai/math_qa: no revision is pinned; this run reads and records commit {commit} of main"]
        options = ["1", "1 , 000", "2", "none", "all of these"]
        assert items == [[str(n), "1 + 1 ?", options, [gold], "allenai/math_qa", commit] for n, gold in ((0, 2), (1, 0))]
        assert re.match("the Hub gave no rows of sagnikrayc/mctest for mctest .*from_jsonl", from_hub(server, tmp_path / "hf", "mctest"))
        assert re.match("the Hub gave no rows of cais/mmlu for mmlu .*from_jsonl", from_hub(server, tmp_path / "hf", "mmlu/anatomy"))
