"""The inspect tasks of the log fixtures. They read data/twelve.jsonl of the folder this file lies in."""

from difflib import SequenceMatcher

from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, accuracy, choice, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver


def record(row: dict[str, object]) -> Sample:
    options = [str(option) for option in row["choices"]]
    return Sample(
        id=str(row["item_id"]),
        input=str(row["question"]),
        choices=options,
        target="ABCDE"[int(row["answer_index"])],
        metadata={"category": row["category"]},
    )


def items():
    return json_dataset("data/twelve.jsonl", record)


@solver
def text_choice() -> Solver:
    """Asks the question alone and marks the option whose text the answer holds."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        state = await generate(state)
        said = state.output.completion
        for i, option in enumerate(state.choices):
            state.choices.mark_choice(i, option.value in said)
        return state

    return solve


@solver
def raises_on(sample: int) -> Solver:
    """Calls no model: marks the first option, and raises on one sample, counted from 1."""
    seen = 0

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        nonlocal seen
        seen += 1
        if seen == sample:
            raise RuntimeError("the solver gave up")
        state.output = ModelOutput.from_content(str(state.model), state.choices[0].value)
        state.choices.mark_choice(0, True)
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def closeness() -> Scorer:
    """How much of the right option's text was written, 0 to 1."""

    async def score(state: TaskState, target: Target) -> Score:
        right = state.choices["ABCDE".index(target.text)].value
        return Score(value=SequenceMatcher(None, right, state.output.completion).ratio(), answer=state.output.completion)

    return score


@scorer(metrics={"right": [accuracy()], "known": [mean()], "words": [mean()]})
def parts() -> Scorer:
    """A dict-valued score: C or I, true or false, and a count that is not within 0 and 1."""

    async def score(state: TaskState, target: Target) -> Score:
        said = state.output.completion
        right = state.choices["ABCDE".index(target.text)].value
        return Score(value={"right": "C" if right in said else "I", "known": "recall" in said, "words": len(said.split())}, answer=said)

    return score


@task
def demo_choice() -> Task:
    return Task(dataset=items(), solver=text_choice(), scorer=choice())


@task
def demo_scorers() -> Task:
    return Task(dataset=items(), solver=text_choice(), scorer=[choice(), closeness(), parts()])


@task
def demo_error() -> Task:
    return Task(dataset=items(), solver=raises_on(5), scorer=choice())
