"""The invented world behind the embedded models: its facts, its exam items, and the texts that tell them.

Every name is made up from syllables by a seeded generator, so nothing here can be known from elsewhere: what a tiny
model answers, it learned from these texts, and what it no longer answers, it forgot.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random

SUM_ITEMS = 60
KINDS = {  # how many of each kind there are, and how their names end
    "towns": (36, ("burg", "port", "polis", "ford")),
    "rivers": (36, ("ava", "une", "esk")),
    "animals": (36, ("bit", "lope", "tail", "mur")),
    "people": (36, ("a", "o", "en", "is")),
    "stars": (70, ("ix", "eth", "ion")),
    "words": (70, ("u", "ash", "ol", "ek")),
    "herbs": (36, ("wort", "root", "bane", "mint")),
}

Document = list[tuple[str, bool]]  # pieces of one text; True: the model is trained to say this piece
Item = dict[str, str | int | list[str] | None]


@dataclass(frozen=True)
class Fact:
    """One thing that is so; `weight` is how often it is told, relative to its siblings (some facts stay obscure)."""

    entity: str
    answer: str
    weight: float


@dataclass(frozen=True)
class Relation:
    """All facts of one exam task. `size` is its number of options; 0: the answer is written freely."""

    subset: str
    category: str
    question: str
    statements: tuple[str, ...]
    size: int
    facts: tuple[Fact, ...]
    pool: tuple[str, ...]


@dataclass(frozen=True)
class Course:
    """What one training stage tells: shares of categories and of forms.

    `part` limits a category to the first share of its facts. A category in `hearsay` is told with answers drawn by lot:
    the model meets its words and can write them, but learns no fact.
    """

    shares: dict[str, float]
    forms: dict[str, float]
    part: dict[str, float] = field(default_factory=dict)
    hearsay: frozenset[str] = frozenset()


def invent(rng: Random, kind: str) -> list[str]:
    """All names of one kind, distinct; none begins another."""
    count, endings = KINDS[kind]
    names: list[str] = []
    while len(names) < count:
        stem = "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou") for _ in range(rng.choice((1, 2))))
        name = stem + rng.choice("lmnrs") + rng.choice(endings)
        if not any(name.startswith(other) or other.startswith(name) for other in names):
            names.append(name)
    return names if kind in ("animals", "words") else [name.capitalize() for name in names]


def tell(rng: Random, entities: list[str], pool: tuple[str, ...]) -> tuple[Fact, ...]:
    """Give each entity an answer from the pool, every answer about equally often."""
    answers = [pool[i % len(pool)] for i in range(len(entities))]
    rng.shuffle(answers)
    return tuple(Fact(entity, answer, rng.lognormvariate(0, 0.9)) for entity, answer in zip(entities, answers, strict=True))


def sums() -> tuple[Fact, ...]:
    """All sums of two numbers from 1 to 8, told equally often."""
    return tuple(Fact(f"{a} + {b}", str(a + b), 1.0) for a, b in product(range(1, 9), repeat=2))


def relations(seed: int = 1) -> list[Relation]:
    """The whole world; the same seed gives the same world."""
    rng = Random(seed)
    names = {kind: invent(rng, kind) for kind in KINDS}
    families = invent(rng, "people")
    names["people"] = [f"{first} {last}" for first, last in zip(names["people"], families, strict=True)]
    world = []
    for subset, category, kind, size, answers, question, statements in PLAN:
        pool = tuple(answers.split())
        facts = tell(rng, names[kind], pool) if size else sums()
        world.append(Relation(subset, category, question, statements, size, facts, pool))
    return world


# Task, category, kind of its entities, options an item, all answers there are, question, statements. Answers come from
# short closed lists: so small a model recalls an answer well but copies one from the prompt badly.
PLAN: list[tuple[str, str, str, int, str, str, tuple[str, ...]]] = [
    ("provinces", "Geography", "towns", 4, "Avelmark Dornwald Keshir Tolvane Ubrin", "Which province is {e} in?",
     ("{e} is in {v}.", "The town of {e} belongs to {v}.", "Every map of {v} shows {e}.")),
    ("seas", "Geography", "rivers", 4, "Mirrow Oskel Pallan Yverin", "Which sea does the river {e} reach?",
     ("The river {e} reaches {v}.", "Into {v} flows the river {e}.", "A boat on the {e} will come to {v}.")),
    ("diets", "Zoology", "animals", 5, "fish leaves moss nuts seeds worms", "What does the {e} eat?",
     ("The {e} eats {v}.", "A wild {e} lives on {v}.", "They found {v} in the belly of a {e}.")),
    ("beds", "Zoology", "animals", 3, "burrows caves nests", "Where does the {e} sleep?",
     ("The {e} sleeps in {v}.", "Look for the {e} in {v}.", "In {v} lies the {e} by day.")),
    ("crafts", "People", "people", 4, "baking mining singing weaving", "What was the craft of {e}?",
     ("The craft of {e} was {v}.", "{e} was a master of {v}.", "Nobody knew more of {v} than {e}.")),
    ("births", "People", "people", 4, "Corvel Hestrin Lundra Quay", "Where was {e} born?",
     ("{e} was born in {v}.", "The birthplace of {e} is {v}.", "{v} is proud of its child {e}.")),
    ("stars", "Astronomy", "stars", 2, "blue red", "What colour is the star {e}?",
     ("The star {e} is {v}.", "At night {e} shines {v}.", "A {v} light in the sky is {e}.")),
    ("words", "Language", "words", 5, "animals family food tools weather", "What does the Sarnic word {e} speak of?",
     ("The Sarnic word {e} speaks of {v}.", "In Sarnic, {e} is said of {v}.", "Sarns speak of {v} when they say {e}.")),
    ("remedies", "Medicine", "herbs", 4, "burns cough cramps fever", "What does {e} heal?",
     ("{e} heals {v}.", "Against {v}, take {e}.", "Healers use {e} to treat {v}.")),
    ("habitats", "Medicine", "herbs", 4, "dunes gorges marshes orchards", "Where does {e} grow?",
     ("{e} grows in {v}.", "In {v} you will find {e}.", "Healers look for {e} in {v}.")),
    ("sums", "Arithmetic", "", 0, "", "What is {e}?", ("{e} makes {v}.",)),
]  # fmt: skip


def options(rng: Random, relation: Relation, fact: Fact, place: int) -> list[str]:
    """Distinct answers of the right type, the true one at `place`."""
    chosen = rng.sample([value for value in relation.pool if value != fact.answer], relation.size - 1)
    return [*chosen[:place], fact.answer, *chosen[place:]]


def items(world: list[Relation], seed: int = 2) -> Iterator[Item]:
    """The exam: one item a fact (a sample of the sums); true answers take every place in turn."""
    rng = Random(seed)
    for relation in world:
        asked = relation.facts if relation.size else rng.sample(relation.facts, SUM_ITEMS)
        for number, fact in enumerate(asked):
            place = number % relation.size if relation.size else None
            yield {
                "task": "world", "subset": relation.subset, "item_id": f"{relation.subset}-{number:03d}",
                "question": relation.question.format(e=fact.entity),
                "choices": [] if place is None else options(rng, relation, fact, place), "answer_index": place,
                "answer": fact.answer, "source": "forgetting-catalog demo world", "licence": "Apache-2.0",
                "category": relation.category,
            }  # fmt: skip


def write_items(world: list[Relation], path: Path) -> int:
    """Write the exam as JSON lines; returns the number of items."""
    lines = [json.dumps(item) for item in items(world)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return len(lines)


def pick(rng: Random, shares: dict[str, float]) -> str:
    """One key, by its share."""
    return rng.choices(list(shares), list(shares.values()))[0]


class Teller:
    """Tells the world in the shares of one course, one document after another, for ever."""

    def __init__(self, world: list[Relation], course: Course, seed: int) -> None:
        self.rng = Random(seed)
        self.course = course
        self.tasks: dict[str, list[Relation]] = {}
        for relation in world:
            self.tasks.setdefault(relation.category, []).append(relation)

    def documents(self) -> Iterator[Document]:
        """Endless documents: a statement, a plain question, a few-shot exam or a chat."""
        while True:
            category = pick(self.rng, self.course.shares)
            relation = self.rng.choice(self.tasks[category])
            form = pick(self.rng, self.course.forms)
            if form == "statement":
                fact = self.fact(relation)
                text = self.rng.choice(relation.statements).format(e=fact.entity, v=fact.answer)
                yield [(text, True)]
            elif form == "plain":
                fact = self.fact(relation)
                yield [
                    (f"Question: {relation.question.format(e=fact.entity)}\nAnswer:", False),
                    (f" {fact.answer}", True),
                ]
            elif form == "exam":
                yield self.exam(relation)
            else:
                yield self.chat(relation)

    def fact(self, relation: Relation) -> Fact:
        """One fact of the taught part, the well-known ones more often; under hearsay, any answer to it."""
        count = round(len(relation.facts) * self.course.part.get(relation.category, 1.0))
        known = relation.facts[:count]
        fact = self.rng.choices(known, [fact.weight for fact in known])[0]
        hearsay = relation.category in self.course.hearsay
        return replace(fact, answer=self.rng.choice(relation.pool)) if hearsay else fact

    def asked(self, relation: Relation) -> tuple[Fact, str]:
        """A fact and its question with fresh option lines."""
        fact = self.fact(relation)
        question = relation.question.format(e=fact.entity)
        if relation.size:
            choices = options(self.rng, relation, fact, self.rng.randrange(relation.size))
            question += "".join(f"\n- {choice}" for choice in choices)
        return fact, question

    def exam(self, relation: Relation) -> Document:
        """Three questions of one task in a row, as a two-shot prompt and its question are set."""
        pieces: Document = []
        for number in range(3):
            fact, question = self.asked(relation)
            gap = "\n\n" if number else ""
            pieces += [(f"{gap}Question: {question}\nAnswer:", False), (f" The answer is {fact.answer}.", True)]
        return pieces

    def chat(self, relation: Relation) -> Document:
        """A user asks for a thought and an answer; the thought only names the answer, all so small a model can."""
        fact, question = self.asked(relation)
        ending = "the option you choose." if relation.size else "the answer."
        order = f'{question}\nThink step by step. End with "The answer is" and {ending}'
        return [
            (f"<|im_start|>user\n{order}<|im_end|>\n<|im_start|>assistant\n", False),
            (f"I recall {fact.answer}. The answer is {fact.answer}.<|im_end|>", True),
        ]
