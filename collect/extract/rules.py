r"""The rules that find an answer in a generated text: a table, tried from the top. Pure, in time linear in the text.

First what is stated (an answer line, a box, 'the answer is'), then, of an answer that came to its end, what is only
there (a last line, a letter in parentheses, a number). The last readable candidate of the first rule that has one counts.
An answer that is stated but cannot be taken (two letters, a letter no option has) ends the search: nothing is guessed after it.
Thoughts in tags are not read; text in a code block is read after the text around it.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from catalog.items import Item
from collect.extract.answers import NUMBER, Grade, as_number, bare, numeric, same_answer, stated_number
from collect.extract.options import TWO, Options, option_of

CAP = 1200  # characters of a candidate that are looked at
LAST = 50  # candidates of a rule that are looked at, from the end
EMPTY, THINKING, REFUSED = "empty answer", "unfinished thought", "refusal"
# 'answer' in languages that models answer in, unasked; adjectives beside it as far as they are usual
WORDS = (
    "antwort|lösung|r[ée]ponse|respuesta|resposta|risposta|antwoord|svar(?:et)?|vastaus|odpowiedź|odpověď|válasz|răspuns(?:ul)?|"
    "ответ|відповідь|απάντηση|cevap|yanıt|jawaban|đáp án|答案|答え|回答|解答|정답|답변|답|الإجابة|الجواب|جواب|پاسخ|תשובה|उत्तर"
)
ENGLISH = (
    r"(?:(?:so|and|thus|hence|therefore|the|my|our|final|correct|best|right),? ){0,5}(?:answer|solution)(?: choice| option| letter| is)?"
)
BESIDE = r"(?:[^\W\d_]{1,20} ){0,2}"
LINE = re.compile(
    rf"(?im)^[^\w\n]{{0,12}}(?:{ENGLISH}|{BESIDE}(?:正确|正確|最终|最終|最終的な|正しい)?(?:{WORDS})(?: [^\W\d_]{{1,20}})?)"
    r"[^\w\n:：]{0,6}[:：][ \t*_]*"
)
IS = re.compile(
    r"(?i)\b(?:answer|solution)(?: choice| option)?(?: (?:is|would be|must be|should be)|'s):?[ \t]*|"
    r"\b(?:antwort (?:ist|lautet)|r[ée]ponse(?: correcte)? est|respuesta(?: correcta)? es|resposta(?: correta)? é|risposta(?: corretta)? è|"
    r"antwoord is|svaret (?:är|er)|odpowiedź to|ответ[ \t]*[-—–]|jawabannya adalah):?[ \t]*|"
    r"答案(?:是|为|為)[:：]?[ \t]*|答えは[:：]?[ \t]*|정답은[ \t]*"
)
CORRECT = re.compile(r"(?i)\bcorrect (?:answer|option|choice)(?: is)?:?[ \t]*")
IS_CORRECT = re.compile(r"([(\[]?\b[A-Z]\b[)\]]?)[*_ \t]+is (?:the )?correct")
REFUSAL = re.compile(
    r"(?i)\bi(?:['’]m| am) (?:sorry|unable|not able)\b|\bi (?:can(?:['’]t|not| not)|won['’]t|will not) "
    r"(?:help|assist|answer|provide|determine|choose|comply|say|tell)\b|\bas an ai\b"
)
LISTED = re.compile(r"[\s*_\-]{0,6}[(\[]?[A-Z][)\].:]")  # a line of a list of options
THOUGHTS = ("think", "thinking", "thought", "reasoning")


class Rule(NamedTuple):
    """How candidates are found in a text. guess: reads what any text may hold; only of an answer that came to its end."""

    name: str
    status: str
    guess: bool
    reads: str
    find: Callable[[str], list[str]]


def lines_after(pattern: re.Pattern[str], text: str) -> list[str]:
    """What follows the last matches of a pattern: the rest of the line, or the next that is not blank and begins no list of options."""
    ends = deque((match.end() for match in pattern.finditer(text)), maxlen=LAST)
    found = []
    for rest in (text[end : end + CAP].lstrip(" \t*_") for end in ends):
        first, *more = (line for line in rest.lstrip().split("\n") if line.strip()) if rest.strip() else ("",)
        if not (rest[:1] in "\r\n" and more and LISTED.match(first) and LISTED.match(more[0])):
            found.append(first)
    return found


def answer_line(text: str) -> list[str]:
    """What follows 'Answer:' at the beginning of a line, Markdown aside."""
    return lines_after(LINE, text)


def answer_is(text: str) -> list[str]:
    """What follows 'the answer is', wherever it stands."""
    return lines_after(IS, text)


def boxed(text: str) -> list[str]:
    r"""Contents of \boxed{...}, braces balanced, in the order in which they begin."""
    found: list[tuple[int, str]] = []
    opened: list[tuple[int, int]] = []  # depth and place of boxes that are still open
    deep = 0
    for match in re.finditer(r"\\(?:boxed|fbox)\s{0,4}\{|[{}]", text):
        if match.group() == "}":
            deep = max(0, deep - 1)
            if opened and opened[-1][0] == deep:
                start = opened.pop()[1]
                found.append((start, text[start : min(match.start(), start + CAP)]))
        else:
            if match.group() != "{":
                opened.append((deep, match.end()))
            deep += 1
    return [content for _, content in sorted(found)[-LAST:]]


def hashes(text: str) -> list[str]:
    """A number alone on a line after '####', as GSM8K's solutions end; other such lines are headings."""
    return list(deque((match.group(1) for match in re.finditer(r"(?m)^####[ \t]*(\S{1,80})[ \t]*$", text)), maxlen=LAST))


def correct_option(text: str) -> list[str]:
    """The letter in 'B is correct', 'the correct option is B'."""
    before = deque((match.group(1) for match in IS_CORRECT.finditer(text)), maxlen=LAST)
    return [*before, *lines_after(CORRECT, text)]


def last_line(text: str) -> list[str]:
    """The last line that is not blank, if it is no longer than an answer."""
    line = text.rstrip()
    line = line[line.rfind("\n") + 1 :]
    return [line] if len(line) <= CAP else []


def last_bracket(text: str) -> list[str]:
    """Capitals in parentheses."""
    return list(deque((match.group() for match in re.finditer(r"\([A-Z]\)", text)), maxlen=LAST))


def last_number(text: str) -> list[str]:
    """The last number."""
    return list(deque((match.group() for match in re.finditer(NUMBER, text)), maxlen=1))


RULES = (
    Rule(
        "answer-line",
        "ok",
        False,
        "the rest of a line that begins with 'Answer:' (also 'Final answer:', 'Antwort:', '答案：' ...)",
        answer_line,
    ),
    Rule("boxed", "ok", False, r"the content of \boxed{...}", boxed),
    Rule("answer-is", "ok", False, "what follows 'the answer is' (also 'die Antwort ist', '答案是' ...)", answer_is),
    Rule("hashes", "ok", False, "what stands alone on a line after '####'", hashes),
    Rule("correct-option", "lenient", False, "'B is correct', 'the correct option is B'", correct_option),
    Rule("last-line", "lenient", True, "a last line that is an option, its letter or a short answer, and nothing else", last_line),
    Rule("last-bracket", "lenient", True, "the last capital in parentheses", last_bracket),
    Rule("last-number", "lenient", True, "the last number, where the gold is one", last_number),
)


def after_thought(text: str) -> tuple[str, bool]:
    """The text behind a thought in tags, and whether a thought is still open; of that, what stands before it."""
    low = text.lower()
    closes = [(low.rfind(f"</{tag}>"), len(tag) + 3) for tag in THOUGHTS]
    at, size = max(closes)
    rest = text[at + size :] if at >= 0 else text
    opens = [found for tag in THOUGHTS if (found := rest.lower().find(f"<{tag}>")) >= 0]
    return (rest[: min(opens)], True) if opens else (rest, False)


def views(text: str) -> list[str]:
    """A text without its code blocks, then with them."""
    parts = text.split("```")
    return ["\n".join(parts[0::2]), text] if len(parts) > 1 else [text]


def without_last_word(text: str) -> str:
    """Cut off in the middle of a word or number: '1' may have become '18'."""
    return text.rstrip("".join(sorted(set(re.findall(r"[\w.,/$]", text[-200:])))))


def grade(text: str, item: Item, options: Options, finished: bool, match: str = "auto") -> Grade:
    """Read and grade one generated answer by these rules; `match` is how a free answer is compared."""
    told, thinking = after_thought(text)
    if not told.strip():
        return Grade(False, None, "unparsed" if finished else "truncated", THINKING if thinking else EMPTY)
    if not finished or thinking:
        told = told if thinking else without_last_word(told)
    refused = REFUSAL.search(told[:CAP]) is not None
    guess = finished and not thinking and not refused
    for rule, candidate in candidates(told, guess):
        found = option_graded(rule, candidate, item, options) if item.choices else free_graded(rule, candidate, item, match)
        if found:
            return found
    return Grade(False, None, "unparsed" if finished else "truncated", REFUSED if refused else THINKING if thinking else None)


def candidates(text: str, guess: bool) -> Iterator[tuple[Rule, str]]:
    """Every rule with its candidates, the last first: what is stated, then what is guessed."""
    for guessing in (False, True) if guess else (False,):
        for view in views(text):
            for rule in RULES:
                if rule.guess == guessing:
                    yield from ((rule, candidate) for candidate in reversed(rule.find(view)))


def option_graded(rule: Rule, candidate: str, item: Item, options: Options) -> Grade | None:
    """The grade of a candidate that names an option, or states an answer that is none; else None."""
    if rule.name == "last-number":
        return None
    found = option_of(candidate, options, whole=rule.guess)
    if isinstance(found, str):
        return Grade(False, None, "unparsed", found)
    return None if found is None else Grade(found in item.gold, found, rule.status, rule.name)


def free_graded(rule: Rule, candidate: str, item: Item, match: str) -> Grade | None:
    """The grade of a candidate that can be a free answer: a number where the gold is one, a guess short."""
    if rule.name in ("last-bracket", "correct-option"):
        return None
    if match == "numeric" or (match == "auto" and numeric(item.gold)):
        stated = candidate if rule.guess else stated_number(candidate)
        if stated is not None and " or " in stated:
            return Grade(False, None, "unparsed", TWO)
        if stated is None or as_number(stated) is None:
            return None
    else:
        stated = candidate
        if not bare(candidate) or rule.name in ("last-number", "hashes") or (rule.guess and len(candidate) > 60):
            return None
    right = any(same_answer(stated, str(gold), match) for gold in item.gold)
    return Grade(right, None, rule.status, rule.name)
