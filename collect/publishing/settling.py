"""Commit until a dataset holds it all, whatever goes wrong on the way."""

import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from catalog.errors import CatalogError
from collect.publishing.faults import Again
from collect.publishing.remote import Change, Dataset, State

TRIES = 6  # of one commit


@dataclass
class Sent:
    """What came of all commits together."""

    urls: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    def add(self, url: str, sizes: Mapping[str, int]) -> None:
        """Count a commit that arrived."""
        self.urls.append(url)
        self.sizes |= sizes


def settle(dataset: Dataset, changes: Callable[[State], Change | None]) -> Sent:
    """Commit until nothing is left to change; every try begins with what the Hub holds by then.

    A stale parent, a lost answer and a publisher that was killed are one case: what is there decides what is still to be sent.

    Args:
        dataset: Where to.
        changes: The next commit on top of a state, or None where nothing is left.

    Raises:
        CatalogError: The Hub refused, or too many tries of one commit failed.
    """
    sent, tries, doubtful = Sent(), 0, Doubt()
    while True:
        try:
            state = dataset.state()
            if doubtful.arrived(dataset, state):
                sent.add(f"{dataset.api.endpoint}/datasets/{dataset.repo}/commit/{state.oid}", doubtful.sizes)
                tries = 0
            doubtful = Doubt()
            if (change := changes(state)) is None:
                return sent
            doubtful = Doubt(change, change.sizes(), dataset.requests() if dataset.pull else ())
            sent.add(dataset.send(change, state.oid), doubtful.sizes)
            tries, doubtful = 0, Doubt()
        except Again as again:
            tries += 1
            wait_or_give_up(dataset, again, tries, sent)


@dataclass(frozen=True)
class Doubt:
    """A commit that may have happened although its answer did not come."""

    change: Change | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    requests: Iterable[str] = ()

    def arrived(self, dataset: Dataset, state: State) -> bool:
        """Whether the Hub holds it, as it was sent; a pull request of it that was opened unheard is the one to go on with."""
        refs = sorted(dataset.requests() - set(self.requests)) if dataset.pull and self.change else []
        offers = [Dataset(dataset.repo, ref, may_create=False) for ref in refs]
        for there, found in [(dataset, state), *((offer, offer.state()) for offer in offers)]:
            if self.change and found.oid and self.sizes.items() <= found.files.items() and not there.altered(found.oid, self.change):
                dataset.revision, dataset.pull = there.revision, dataset.pull and there is dataset
                return True
        return False


def wait_or_give_up(dataset: Dataset, again: Again, tries: int, sent: Sent) -> None:
    """Sleep before the next try, longer each time and as long as the Hub asks for.

    Raises:
        CatalogError: There were enough tries, or the Hub was not reached at all.
    """
    from huggingface_hub import constants

    if tries == TRIES or (tries > 2 and not again.answered and not sent.urls):
        held = f" {len(sent.urls)} commits are there and stay." if sent.urls else " Nothing was changed."
        same = f"the same command with --revision {dataset.revision}" if dataset.revision.startswith("refs/pr/") else "the same command"
        raise CatalogError(
            f"gave up on {dataset.repo} after {tries} tries: {again}.{held} Check the network and {constants.ENDPOINT}, then run {same} "
            "again: it goes on from what is there"
        ) from again
    wait = max(again.wait, min(2.0 ** (tries - 1), 30) * random.uniform(0.5, 1.5))  # two that met do not meet again
    print(f"{again}: try {tries + 1} of {TRIES} in {wait:.1f} s", file=sys.stderr)
    time.sleep(wait)
