"""Publish a catalog folder to a dataset on the Hub: what is new, in commits that each leave a valid dataset."""

import shutil
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from catalog.errors import CatalogError
from catalog.open import NEWEST_WINS
from collect.dataset_card import CardFacts, card_text
from collect.publishing.leaks import refuse_leaks
from collect.publishing.local import Local, content_file, piece_files, pieces, progress, write_rows
from collect.publishing.merging import check_together, guesses_in, merge, new_content
from collect.publishing.remote import Change, Dataset, Rows, State, digests_of, refuse_to_rewrite
from collect.publishing.settling import Sent, settle

FILES_PER_COMMIT = 200
BYTES_PER_COMMIT = 1_000_000_000


@dataclass(frozen=True)
class Told:
    """How to publish, as the user said."""

    with_text: bool = False
    license_id: str | None = None
    allowed: tuple[str, ...] = ()


def publish(root: Path, dataset: Dataset, told: Told) -> Sent:
    """Send what the dataset lacks; a second call sends nothing.

    Args:
        root: Catalog folder, of which nothing is changed.
        dataset: Where to.
        told: With texts or not, the licence, text that looks private and is not.

    Raises:
        CatalogError: The folder is no sound catalog, something private would leave, something contradicts what is there,
            or the Hub cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="publish-") as folder:
        publisher = Publisher(checked(root, told), dataset, Path(folder), told)
        return settle(dataset, publisher.next_change)


def plan(root: Path, dataset: Dataset, told: Told) -> tuple[dict[str, int], int]:
    """What `publish` would send: bytes by path, and in how many commits; nothing is changed anywhere."""
    with tempfile.TemporaryDirectory(prefix="publish-") as folder:
        publisher = Publisher(checked(root, told), dataset, Path(folder), told, whole=True)
        sizes: dict[str, int] = {}

        def look(state: State) -> None:
            sizes.update(change.sizes() if (change := publisher.next_change(state)) else {})

        settle(dataset, look)
        return sizes, publisher.commits if sizes else 0


def checked(root: Path, told: Told) -> Local:
    """The folder, if it is sound and nothing in it looks private."""
    local = Local(root)
    refuse_leaks(local.con, told.allowed, told.with_text)
    return local


@dataclass
class Publisher:
    """Makes the next commit on top of whatever the dataset holds."""

    local: Local
    dataset: Dataset
    folder: Path
    told: Told
    whole: bool = False  # everything at once: to count, not to send
    commits: int = 0
    noted: set[str] = field(default_factory=set)

    def next_change(self, state: State) -> Change | None:
        """The next commit: small tables and all new items first, then runs by model, as many as one commit takes.

        Raises:
            CatalogError: Something here contradicts what is there.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        itemsets, protocols, runs = new_content(self.local, state, self.dataset)
        merged = {table: self.merged(table, state) for table in NEWEST_WINS}
        change = Change("")
        self.add_small(change, state, merged, itemsets, protocols)
        sent = self.add_pieces(change, runs, self.texts_missing(state, {run["run_id"] for run in runs}))
        if sent:
            digests = {str(run["run_id"]): self.local.digests[str(run["run_id"])] for run in sent}
            change.adds |= content_file(self.folder, "runs", sent, digests)
        content = merged | {
            "itemsets": state.rows["itemsets"] + itemsets, "protocols": state.rows["protocols"] + protocols,
            "runs": state.rows["runs"] + sent,
        }  # fmt: skip
        if change.adds:
            check_together(self.local, state, self.dataset, content | {"runs": state.rows["runs"] + runs})
        self.add_card(change, state, content)
        change.message = message_of(sent, change)
        return change if change.adds else None

    def note(self, text: str) -> None:
        """Say something on standard error, once."""
        if text not in self.noted:
            print(text, file=sys.stderr)
        self.noted.add(text)

    def merged(self, table: str, state: State) -> Rows:
        """Rows of a descriptive table, theirs and ours; what was replaced is said once."""
        rows, notes = merge(table, state.rows[table], self.local.rows[table])
        if notes and table == "models":  # a guess of ours replaces nothing
            rows, notes = merge(table, state.rows[table], self.local.rows[table], guesses_in(self.local.root))
        for note in notes:
            self.note(f"replaced: {note}")
        if table == "pairs" and len({row["pair_id"] for row in rows}) < len(rows):
            names = [row["pair_id"] for row in rows]
            twice = sorted({name for name in names if names.count(name) > 1})
            raise CatalogError(
                f"conflict, nothing was sent: pair {', '.join(map(repr, twice))} is of other models in {self.dataset.repo}. "
                "Name yours otherwise: collect pair BEFORE AFTER --id NAME"
            )
        return rows

    def add_small(self, change: Change, state: State, merged: dict[str, Rows], itemsets: Rows, protocols: Rows) -> None:
        """Files of the small tables that change, and of all new items."""
        for table, rows in merged.items():
            path = f"{table}/{table}.parquet"
            if rows and (rows != state.rows[table] or path not in state.files):
                refuse_to_rewrite(self.dataset.repo, set(state.newer) & set(state.of_table(table)))
                write_rows(self.folder / path, table, rows)
                change.adds[path] = self.folder / path
                change.deletes += [other for other in state.of_table(table) if other != path]
        if protocols:
            change.adds |= content_file(self.folder, "protocols", protocols)
        if itemsets:
            ids = [row["itemset_id"] for row in itemsets]
            change.adds |= content_file(self.folder, "itemsets", itemsets, {i: self.local.itemset_digests[i] for i in ids})
            change.adds |= content_file(self.folder, "samples", self.local.samples_of(ids))

    def add_pieces(self, change: Change, runs: Rows, texts: set[int]) -> Rows:
        """Files of new runs until a commit is full; returns the rows of those runs."""
        todo = list(pieces(self.local, (run["run_id"] for run in runs), texts, self.told.with_text))
        taken: set[int] = set()
        files, size = len(change.adds), sum(change.sizes().values())
        self.commits = 1
        for piece in progress("writing files", todo):
            written = piece_files(self.local, piece, self.folder)
            files, size = files + len(written), size + sum(path.stat().st_size for path in written.values())
            if taken and (files > FILES_PER_COMMIT or size > BYTES_PER_COMMIT):
                if not self.whole:
                    break
                self.commits, files, size = self.commits + 1, 0, 0
            change.adds |= written
            taken |= set(piece.run_ids)
        return [run for run in runs if run["run_id"] in taken]

    def texts_missing(self, state: State, new: set[int]) -> set[int]:
        """Runs that are there without the texts that are here and are to be published."""
        if not self.told.with_text:
            return set()
        here = self.local.with_rows("generations") - new
        return here - texts_there(self.dataset, state) if here else set()

    def add_card(self, change: Change, state: State, content: dict[str, Rows]) -> None:
        """The card, where it says anything new."""
        sizes = dict(state.files) | change.sizes()
        for path in change.deletes:
            sizes.pop(path)
        text = card_text(CardFacts(self.dataset.repo, content, sizes, self.told.license_id), state.readme)
        if not text.startswith("---\nlicense:"):
            self.note("the dataset states no licence: --license ID says what others may do with it, for example apache-2.0")
        if text != state.readme:
            change.adds["README.md"] = text.encode()


def texts_there(dataset: Dataset, state: State) -> set[int]:
    """Runs whose texts are published, from the footers of their files."""
    from huggingface_hub import HfFileSystem

    from collect.publishing.faults import explained

    found: set[int] = set()
    with explained(dataset.repo):
        files = HfFileSystem()
        for path in state.of_table("generations"):
            with files.open(f"datasets/{dataset.repo}@{state.oid}/{path}", block_size=1 << 16) as file:
                found |= {int(run) for run in digests_of(file)}
    return found


def message_of(runs: Iterable[dict[str, object]], change: Change) -> str:
    """The first line of a commit."""
    runs = list(runs)
    models = {run["model_id"] for run in runs}
    if runs:
        return f"Add {len(runs)} {'run' if len(runs) == 1 else 'runs'} of {len(models)} {'model' if len(models) == 1 else 'models'}"
    return f"Update {', '.join(sorted({path.split('/')[0] for path in change.adds}))}"
