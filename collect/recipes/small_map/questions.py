"""Text of the task run: generated questions with short worked answers, as a chat model is asked (templates of our own).

Arithmetic, units, dates, words, number systems, and two kinds of facts: currencies and names of countries (Unicode CLDR
through the package babel, Unicode licence 3) and names of characters (Python's unicodedata, Unicode licence 3).
"""

import calendar
import random
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import torch

from collect.recipes.small_map.training import BLOCK, Corpus

LICENCE = "templates of this project, Apache-2.0; facts of Unicode CLDR (babel) and of Python's unicodedata, Unicode licence 3"
HELD_OUT_ROWS = 16
N_QUESTIONS = 2600
LETTERS = "ABCD"
PEOPLE = ("Amal", "Bruno", "Chika", "Dilnoza", "Eero", "Farida", "Goran", "Hana", "Ilse", "Jomo", "Keiko", "Lazlo", "Mirela", "Nuri")
THINGS = ("lanterns", "ropes", "tiles", "stamps", "kettles", "brushes", "pulleys", "candles", "hinges", "baskets", "maps", "bells")
PLACES = ("harbour", "quarry", "orchard", "mill", "observatory", "ferry landing", "greenhouse", "workshop", "lighthouse", "depot")
WORDS = (*(thing[:-1] for thing in THINGS if thing != "brushes"), "anchor", "barley", "copper", "dune", "ember", "fjord", "granite",
         "heron", "inlet", "juniper", "kiln", "lichen", "magnet", "nectar", "otter", "pigment", "quiver", "resin", "sorrel", "thistle",
         "umber", "velvet", "willow", "yarrow", "zephyr")  # fmt: skip
UNITS = (("metres", "centimetres", 100), ("kilometres", "metres", 1000), ("kilograms", "grams", 1000), ("litres", "millilitres", 1000),
         ("hours", "minutes", 60), ("minutes", "seconds", 60), ("days", "hours", 24), ("feet", "inches", 12), ("yards", "feet", 3),
         ("weeks", "days", 7), ("gallons", "quarts", 4), ("pounds", "ounces", 16), ("dozen", "pieces", 12))  # fmt: skip
LANGUAGES = {"fr": "French", "de": "German", "es": "Spanish", "it": "Italian", "nl": "Dutch", "pl": "Polish", "sv": "Swedish",
             "fi": "Finnish", "pt": "Portuguese", "tr": "Turkish"}  # fmt: skip
SCRIPTS = ((0x00C0, 0x0180), (0x0391, 0x03CA), (0x0410, 0x0450), (0x2190, 0x2200), (0x2200, 0x2260), (0x2600, 0x2670))


@dataclass(frozen=True)
class Question:
    """A question, how it is worked out in a sentence or two, its answer, and three answers that are wrong."""

    text: str
    working: str
    answer: str
    wrong: tuple[str, ...]


def near(rng: random.Random, value: int) -> tuple[str, ...]:
    """Three numbers that one could take for `value`."""
    step = max(1, abs(value) // 10)
    others = {value + step, value - step, value + 1, value + 10, value * 2, value + 2 * step} - {value}
    return tuple(str(v) for v in rng.sample(sorted(v for v in others if v >= 0), 3))


def purchase(rng: random.Random) -> Question:
    """Price times number, change back."""
    who, what = rng.choice(PEOPLE), rng.choice(THINGS)
    n, price = rng.randint(3, 12), rng.randint(2, 15)
    paid = (n * price // 50 + 1) * 50
    left = paid - n * price
    text = f"{who} needs {n} {what} for the {rng.choice(PLACES)}. They cost {price} coins apiece. How many coins come back from {paid}?"
    return Question(text, f"The {what} cost {n} x {price} = {n * price} coins. From {paid}, {paid} - {n * price} = {left} coins come back.",
                    str(left), near(rng, left))  # fmt: skip


def journey(rng: random.Random) -> Question:
    """Distance from speed and time, with a stop."""
    speed, hours, rest = rng.randint(3, 60), rng.randint(2, 9), rng.randint(1, 3)
    total, far = hours + rest, speed * hours
    text = (f"A cart leaves the {rng.choice(PLACES)} at {speed} kilometres an hour and is under way for {total} hours, {rest} of which "
            "it stands still. How many kilometres does it cover?")  # fmt: skip
    return Question(text, f"It moves for {total} - {rest} = {hours} hours, so it covers {speed} x {hours} = {far} kilometres.",
                    str(far), near(rng, far))  # fmt: skip


def shares(rng: random.Random) -> Question:
    """Division with a remainder."""
    each, people, over = rng.randint(3, 20), rng.randint(4, 9), rng.randint(1, 3)
    n, what = each * people + over, rng.choice(THINGS)
    text = f"{n} {what} are handed out evenly to {people} workers of the {rng.choice(PLACES)}. How many {what} remain?"
    return Question(text, f"{people} x {each} = {n - over}, and {n} - {n - over} = {over}, so {over} remain.",
                    str(over), tuple(str(v) for v in rng.sample([v for v in range(9) if v != over], 3)))  # fmt: skip


def units(rng: random.Random) -> Question:
    """One unit in another, either way."""
    large, small, factor = rng.choice(UNITS)
    n = rng.randint(2, 40)
    if rng.random() < 0.5:
        return Question(f"Express {n} {large} in {small}.",
                        f"There are {factor} {small} to each of the {large}: {n} x {factor} = {n * factor}.",
                        f"{n * factor} {small}", tuple(f"{v} {small}" for v in near(rng, n * factor)))  # fmt: skip
    return Question(f"Express {n * factor} {small} in {large}.",
                    f"{factor} {small} make up one of the {large}: {n * factor} / {factor} = {n}.",
                    f"{n} {large}", tuple(f"{v} {large}" for v in near(rng, n)))  # fmt: skip


def discount(rng: random.Random) -> Question:
    """A price lowered by some per cent."""
    price, off = 20 * rng.randint(2, 30), 5 * rng.randint(1, 12)
    less = price * off // 100
    text = f"The {rng.choice(PLACES)} lowers a price of {price} coins by {off} per cent. What is the new price in coins?"
    return Question(text, f"{off} per cent of {price} is {less}, and {price} - {less} = {price - less}.",
                    str(price - less), near(rng, price - less))  # fmt: skip


def field(rng: random.Random) -> Question:
    """Area or fence of a rectangle."""
    a, b = rng.randint(4, 40), rng.randint(4, 40)
    if rng.random() < 0.5:
        return Question(f"The floor of the {rng.choice(PLACES)} is {a} by {b} metres. How many square metres is that?",
                        f"The area is {a} x {b} = {a * b}.", str(a * b), near(rng, a * b))  # fmt: skip
    around = 2 * (a + b)
    return Question(f"A wall runs around a yard of {a} by {b} metres beside the {rng.choice(PLACES)}. How many metres long is it?",
                    f"Twice the sum of the sides: 2 x ({a} + {b}) = {around}.", str(around), near(rng, around))  # fmt: skip


def mean(rng: random.Random) -> Question:
    """Mean of four counts."""
    middle, what = rng.randint(12, 60), rng.choice(THINGS)
    a, b = rng.randint(1, 9), rng.randint(1, 9)
    counts = [middle - a, middle + a, middle - b, middle + b]
    rng.shuffle(counts)
    told = ", ".join(map(str, counts))
    return Question(f"Four crates at the {rng.choice(PLACES)} hold {told} {what}. What is the mean number a crate?",
                    f"The sum of {told} is {sum(counts)}, and {sum(counts)} / 4 = {middle}.", str(middle), near(rng, middle))  # fmt: skip


def weekday(rng: random.Random) -> Question:
    """A day of the week some days on."""
    start, n, days = rng.randrange(7), rng.randint(8, 90), list(calendar.day_name)
    end = (start + n) % 7
    return Question(f"The {rng.choice(PLACES)} opened on a {days[start]}. Which day of the week came {n} days later?",
                    f"{n} days are {n // 7} weeks and {n % 7} days; {n % 7} days on from {days[start]} it is {days[end]}.",
                    days[end], tuple(rng.sample([day for day in days if day != days[end]], 3)))  # fmt: skip


def span(rng: random.Random) -> Question:
    """Days from one date to another."""
    first, n = date(rng.randint(1950, 2020), rng.randint(1, 12), rng.randint(1, 28)), rng.randint(9, 45)
    last = first + timedelta(days=n)
    told = [f"{day.day} {calendar.month_name[day.month]} {day.year}" for day in (first, last)]
    left = calendar.monthrange(first.year, first.month)[1] - first.day
    way = (
        f"To the end of {calendar.month_name[first.month]} it is {left} days; the rest makes {n} in all."
        if left < n
        else f"It is {n} days."
    )
    return Question(f"A voyage lasted from {told[0]} to {told[1]}. How many days lie between the two dates?", way, str(n), near(rng, n))


def named(language: str, what: str) -> dict[str, str]:
    """Names by code in a language: of 'territories' or 'currencies' (CLDR)."""
    from babel import Locale

    return {str(code): str(name) for code, name in getattr(Locale(language), what).items()}


def currency(rng: random.Random) -> Question:
    """What one pays with somewhere (CLDR)."""
    from babel.numbers import get_territory_currencies

    names, money = named("en", "territories"), named("en", "currencies")
    used = {code: found[0] for code in names if len(code) == 2 and code.isalpha() and (found := get_territory_currencies(code))}
    code = rng.choice(sorted(used))
    answer = money[used[code]]
    wrong = sorted({money[c] for c in used.values()} - {answer})
    return Question(f"What do people pay with in {names[code]}?", f"The money in use in {names[code]} is the {answer}.",
                    answer, tuple(rng.sample(wrong, 3)))  # fmt: skip


def exonym(rng: random.Random) -> Question:
    """A country's name in another language (CLDR)."""
    language = rng.choice(sorted(LANGUAGES))
    names, there = named("en", "territories"), named(language, "territories")
    codes = sorted(c for c in names if len(c) == 2 and c.isalpha() and c in there and there[c] != names[c])
    code, *others = rng.sample(codes, 4)
    return Question(f"What is {names[code]} called in {LANGUAGES[language]}?", f"Speakers of {LANGUAGES[language]} say {there[code]}.",
                    there[code], tuple(there[c] for c in others))  # fmt: skip


def character(rng: random.Random) -> Question:
    """The standard name of a character (unicodedata)."""
    first, last = rng.choice(SCRIPTS)
    named = [chr(c) for c in range(first, last) if unicodedata.name(chr(c), "")]
    this, *others = rng.sample(named, 4)
    name, *wrong = (unicodedata.name(c).capitalize() for c in (this, *others))
    return Question(f"Which name does Unicode give to the character {this}?",
                    f"The character {this} has the code point U+{ord(this):04X}, and its name is {name}.", name, tuple(wrong))  # fmt: skip


def alphabet(rng: random.Random) -> Question:
    """First or last word of four."""
    words = rng.sample(WORDS, 4)
    first = rng.random() < 0.5
    answer = min(words) if first else max(words)
    place = "first" if first else "last"
    return Question(f"Which of these words stands {place} in a dictionary: {', '.join(words)}?",
                    f"In dictionary order they are {', '.join(sorted(words))}.", answer,
                    tuple(w for w in words if w != answer))  # fmt: skip


def numeral(rng: random.Random) -> Question:
    """A number in base two."""
    n = rng.randint(5, 120)
    powers = [2**i for i in range(6, -1, -1) if n >> i & 1]
    wrong = tuple(f"{v:b}" for v in rng.sample([v for v in range(max(1, n - 6), n + 7) if v != n], 3))
    return Question(f"How is {n} written in base two?", f"{n} = {' + '.join(map(str, powers))}, so the digits are {n:b}.", f"{n:b}", wrong)


def ages(rng: random.Random) -> Question:
    """Who is how old, some years on."""
    a, b = rng.sample(PEOPLE, 2)
    young, gap, years = rng.randint(4, 30), rng.randint(2, 25), rng.randint(2, 15)
    old = young + gap + years
    return Question(f"{a} is {young} years old, {b} is {gap} years older. What will be the age of {b} in {years} years?",
                    f"{b} is {young} + {gap} = {young + gap} now; in {years} years, {young + gap} + {years} = {old}.",
                    str(old), near(rng, old))  # fmt: skip


def series(rng: random.Random) -> Question:
    """The next number."""
    start, step = rng.randint(1, 40), rng.randint(2, 15)
    shown = [start + step * i for i in range(4)]
    answer = start + 4 * step
    return Question(f"Which number continues the row {', '.join(map(str, shown))}?",
                    f"Each number is {step} more than the one before: {shown[-1]} + {step} = {answer}.",
                    str(answer), near(rng, answer))  # fmt: skip


def fractions(rng: random.Random) -> Question:
    """The largest of four fractions."""
    found = rng.sample(sorted({Fraction(a, b) for b in range(3, 13) for a in range(1, b)}), 4)
    told = [f"{f.numerator}/{f.denominator}" for f in found]
    answer = told[found.index(max(found))]
    about = ", ".join(f"{text} is about {float(value):.2f}" for text, value in zip(told, found, strict=True))
    return Question(f"Which of the fractions {', '.join(told)} is the largest?", f"{about}.".capitalize(), answer,
                    tuple(text for text in told if text != answer))  # fmt: skip


KINDS: tuple[Callable[[random.Random], Question], ...] = (
    purchase, journey, shares, units, discount, field, mean, weekday, span, currency, exonym, character, alphabet, numeral, ages,
    series, fractions,
)  # fmt: skip


def turns(question: Question, rng: random.Random) -> tuple[str, str]:
    """What the user asks and what the model says: half of the questions list four options by letter."""
    if rng.random() < 0.5:
        return question.text, f"{question.working}\nAnswer: {question.answer}"
    options = [question.answer, *question.wrong]
    rng.shuffle(options)
    listed = "\n".join(f"({letter}) {option}" for letter, option in zip(LETTERS, options, strict=True))
    return f"{question.text}\n{listed}", f"{question.working}\nAnswer: ({LETTERS[options.index(question.answer)]})"


def conversations(n: int, seed: int) -> Iterator[tuple[str, str]]:
    """`n` questions and answers, no question twice, kinds in turn as they are drawn."""
    rng, seen = random.Random(seed), set[str]()
    while len(seen) < n:
        question = rng.choice(KINDS)(rng)
        if question.text not in seen and len({question.answer, *question.wrong}) == 4:
            seen.add(question.text)
            yield turns(question, rng)


def encoded(asked: str, said: str, tokenizer: Any) -> tuple[list[int], list[int]]:
    """Token ids of one conversation in the model's own template, and labels: only what the model says is learnt."""
    user = {"role": "user", "content": asked}
    before = tokenizer.apply_chat_template([user], tokenize=False, add_generation_prompt=True)
    whole = tokenizer.apply_chat_template([user, {"role": "assistant", "content": said}], tokenize=False)
    read = tokenizer(before, add_special_tokens=False)["input_ids"]
    learnt = tokenizer(whole.removeprefix(before), add_special_tokens=False)["input_ids"]  # a turn's marks are tokens of their own
    return read + learnt, [-100] * len(read) + learnt


def corpus(tokenizer: Any) -> Corpus:
    """Conversations end to end in rows of BLOCK tokens; the last rows are held out."""
    talks = list(conversations(N_QUESTIONS, seed=1))
    ids, labels = list[int](), list[int]()
    for asked, said in talks:
        more_ids, more_labels = encoded(asked, said, tokenizer)
        ids += more_ids
        labels += more_labels
    n = len(ids) // BLOCK * BLOCK
    rows, said_rows = torch.tensor(ids[:n]).view(-1, BLOCK), torch.tensor(labels[:n]).view(-1, BLOCK)
    cut = len(rows) - HELD_OUT_ROWS
    return Corpus(rows[:cut], said_rows[:cut], rows[cut:], said_rows[cut:], LICENCE, [f"{asked}\n{said}" for asked, said in talks])
