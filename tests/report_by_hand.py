"""Pairs for the tests of reports: names that try to break out of a page, and a setting for each kind of trouble."""

HOSTILE = """</script x><!--<script>window.owned=1</script><img src=x onerror="window.owned=1">"""
BEFORE = f"org's/\"{HOSTILE}@1"
AFTER = f"org/&amp;<b>{HOSTILE}@2"
SETTING, CATEGORY = f"a{HOSTILE}", f"c'{HOSTILE}${{1}}"
LEFT_OUT = "D"


def trouble(fill):
    """One pair: a hostile setting with replicates; few items in common; one item; nothing changed; several golds; two options."""
    for setting, shots in ((SETTING, 0), ("few", 0), ("one", 0), ("one, 5 shots", 5), ("same", 0), ("several", 0), ("two", 0)):
        fill.insert("protocols", protocol_id=setting, setting=setting.split(",")[0], decoding="sampled", shots=shots)

    def asked(task, options, category, setting, before, after, replicates=2):
        fill.task(task, options)
        fill.insert("categories", map="mine", task_id=task, category=category)
        for replicate in range(replicates):
            fill.answers(BEFORE, task, before, replicate, protocol=setting)
            fill.answers(AFTER, task, after, replicate, protocol="one, 5 shots" if setting == "one" else setting)

    asked("x/t", [4] * 40, CATEGORY, SETTING, "0" * 30 + "1" * 10, "0" * 10 + "2" * 15 + "u" * 5 + "1" * 10)
    asked("x/one", [4], "Lone", "one", "0", "1", replicates=1)
    asked("x/same", [4] * 40, "Same", "same", "0" * 20 + "1" * 20, "0" * 20 + "1" * 20)
    asked("x/several", ["multi"] * 6, "Several", "several", "111000", "111000", replicates=1)
    asked("x/two", [2] * 40, "Two", "two", "0" * 40, "0" * 20 + "1" * 20)
    for at in range(10):
        fill.insert("categories", map="mine", task_id=f"x/few{at}", category="Few")
        for model, names in ((BEFORE, "abcd"), (AFTER, "cdef")):
            fill.task(f"x/few{at}", [4] * 4, names=list(names))
            fill.answers(model, f"x/few{at}", "0000", protocol="few")
    fill.pair(BEFORE, AFTER)
    fill.task("x/other", [4])
    fill.answers(LEFT_OUT, "x/other", "0", protocol="few")
    fill.pair(BEFORE, LEFT_OUT)


def many(fill, n_tasks=60):
    """A pair with as many tasks, each in a category of its own, every second of which moved."""
    for at in range(n_tasks):
        task = f"mmlu/subject_of_a_rather_long_name_{at:02}"
        fill.task(task, [4] * 20)
        fill.insert("categories", map="own", task_id=task, category=f"Subject of a long name, number {at:02}")
        fill.answers("org/A", task, "0" * 20)
        fill.answers("org/B", task, "1" * 15 + "0" * 5 if at % 2 else "0" * 20)
    fill.pair("org/A", "org/B")
