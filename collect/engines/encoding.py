"""From text to token ids, where a prompt meets its options."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from catalog.errors import CatalogError
from collect.engines import ScoreRequest
from collect.engines.packing import Encoded, common_length
from collect.models import Located

SHARED = 8  # questions that begin with the same examples, from which it pays to run these apart


class Encoder:
    """A model's tokenizer and chat template."""

    def __init__(self, located: Located, options: dict[str, Any]) -> None:
        from transformers import AutoTokenizer

        try:
            self.tokenizer: Any = AutoTokenizer.from_pretrained(located.folder, **options)
        except (OSError, ValueError, ImportError) as error:
            raise CatalogError(f"the tokenizer of {located.spec.where} does not load: {str(error).strip().splitlines()[0]}") from error
        self.where = located.spec.where
        template = self.tokenizer.chat_template
        self.has_template = bool(template)
        self.chat_template_sha256 = hashlib.sha256(str(template).encode()).hexdigest() if template else None
        self.n_after = self.count_after()

    def count_after(self) -> int:
        """How many special tokens the tokenizer sets behind a text: an end where an answer shall follow is none."""
        bare, whole = (self.tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
        return next((n for n in range(len(whole) - len(bare) + 1) if whole[len(whole) - n - len(bare) : len(whole) - n] == bare), 0)

    def encode_all(self, texts: Sequence[str], special: bool) -> list[list[int]]:
        """Token ids of every text; with what the tokenizer sets before a text, without what it sets behind."""
        if not texts:
            return []
        found = self.tokenizer(list(texts), add_special_tokens=special)["input_ids"]
        return [list(ids[: len(ids) - self.n_after]) if special else list(ids) for ids in found]

    def encode(self, text: str, chat: bool) -> list[int]:
        """Token ids; a templated text carries its special tokens already."""
        return self.encode_all([text], special=not chat)[0]

    def templated(self, message: str) -> str:
        """A user's message in the model's own chat template, up to where the answer begins.

        Raises:
            CatalogError: The template does not take a lone user's message.
        """
        from jinja2 import TemplateError

        talk = [{"role": "user", "content": message}]
        try:
            return str(self.tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True))
        except TemplateError as error:
            raise CatalogError(
                f"the chat template of {self.where} does not take a user's message ({error}): "
                "mend chat_template in its tokenizer, or ask with template = 'none'"
            ) from error

    def questions(self, requests: Sequence[ScoreRequest], first: int) -> list[Encoded]:
        """Every request as token ids; the first has position `first`."""
        shared = {lead for lead, n in Counter(r.lead for r in requests).items() if lead and n >= SHARED}
        leads: dict[str, list[int]] = {}
        for request in requests:
            if request.lead in shared and not request.chat and request.lead not in leads:
                leads[request.lead] = self.ids_of_lead(request)
        asked = []
        for request in requests:
            lead = request.lead if leads.get(request.lead) and not request.chat else ""
            text = self.templated(request.prompt) if request.chat else request.prompt
            ends = [c.lstrip() or c if request.chat else c for c in request.continuations]
            asked.append((request, lead, [text[len(lead) :] + end for end in ("", *ends)]))
        found = {}
        for special in (True, False):
            texts = [text for request, lead, own in asked if special == (not request.chat and not lead) for text in own]
            found[special] = iter(self.encode_all(texts, special))
        questions = []
        for at, (request, lead, own) in enumerate(asked, first):
            alone, *wholes = (leads.get(lead, []) + next(found[not request.chat and not lead]) for _ in own)
            questions.append(self.question(at, alone, wholes, request.lead if request.lead in shared else ""))
        return questions

    def ids_of_lead(self, request: ScoreRequest) -> list[int]:
        """Token ids of the beginning of a prompt that others share, or none where its tokens do not end with it."""
        lead, whole = self.encode_all([request.lead, request.prompt], special=True)
        [rest] = self.encode_all([request.prompt[len(request.lead) :]], special=False)
        return lead if lead + rest == whole else []

    def question(self, at: int, alone: list[int], wholes: list[list[int]], lead: str) -> Encoded:
        """Split prompt + options into what all options share and their rests.

        Tokens may merge across the border, so that each option's scored part begins where its own tokens leave those
        of the prompt; at least one token is always scored.
        """
        starts = [min(common_length(alone, whole), len(whole) - 1) for whole in wholes]
        shared = max(min(starts), 0)
        if shared == 0:  # nothing stands before some option's first token: begin with a token that can predict it
            first = next(
                i for i in (self.tokenizer.bos_token_id, self.tokenizer.pad_token_id, self.tokenizer.eos_token_id, 0) if i is not None
            )
            return Encoded(at, [first], [whole or [first] for whole in wholes], [max(start, 0) for start in starts], lead)
        return Encoded(at, wholes[0][:shared], [whole[shared:] for whole in wholes], [start - shared for start in starts], lead)
