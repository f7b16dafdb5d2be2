"""What a catalog is opened from: a folder, or a data set on the Hub that becomes one."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from catalog import hub
from catalog.errors import CatalogError

SHIPPED = Path(__file__).parent / "data"
PUBLISHED = SHIPPED / "published_results" / "published.parquet"
PAPER_MAP = SHIPPED / "categories" / "paper.parquet"
BROUGHT = (PAPER_MAP, PUBLISHED)  # the package brings these into every catalog
# table -> its key; the order is the order of loading
SMALL_TABLES = {
    "models": "model_id", "tasks": "task_id", "categories": "map, task_id", "itemsets": "itemset_id",
    "protocols": "protocol_id", "runs": "run_id", "pairs": "pair_id",
}  # fmt: skip
LARGE_TABLES = ("samples", "outcomes", "option_scores", "generations", "published_results")
FAR_TABLES = ("outcomes", "option_scores", "generations")  # what stays on the Hub without a download


class Place(NamedTuple):
    """A catalog to open: its name as given, its folder, its commit if it came from the Hub, and what of it stays there."""

    name: str
    root: Path
    commit: str | None = None
    far: hub.Dataset | None = None


def places_of(sources: Sequence[str | Path], revision: str | None = None, download: bool = True) -> list[Place]:
    """Find every source, on disk or on the Hub; none is the shipped catalog."""
    on_hub = [found for source in sources if (found := hub.named(source))]
    if revision and len(on_hub) != 1:
        raise CatalogError(f"a revision goes with one data set on the Hub, {len(on_hub)} are given: write ORG/NAME@REVISION")
    places = []
    for source in sources:
        if found := hub.named(source):
            data = hub.dataset(found[0], revision or found[1])
            root = hub.fetch(data) if download else hub.fetch(data, lambda path: path.split("/")[0] not in FAR_TABLES)
            places.append(Place(found[0], root, data.commit, None if download else data))
        else:
            root = existing(source)
            places.append(Place(*hub.origin_of(root, str(source))))
    return places or [Place("shipped", SHIPPED)]


def existing(source: str | Path) -> Path:
    """The catalog folder of that name."""
    root = Path(source).expanduser()
    if not root.is_dir():
        raise CatalogError(f"no catalog at {source}: wanted a folder with outcomes/*.parquet, as `collect run --out` writes")
    if not any(root.glob("outcomes/**/*.parquet")):
        raise CatalogError(f"{root} holds no outcomes/*.parquet: fill it with `collect run --out {root}`")
    return root


def files_of(place: Place) -> dict[str, list[str]]:
    """table -> the Parquet files of a catalog, but for those that stay on the Hub."""
    tables = [table for table in (*SMALL_TABLES, *LARGE_TABLES) if not (place.far and table in FAR_TABLES)]
    return {table: [str(path) for path in sorted(place.root.glob(f"{table}/**/*.parquet"))] for table in tables}
