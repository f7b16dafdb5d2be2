"""The notebooks that come with the package, to be copied and changed."""

import json
import shutil
from pathlib import Path

from catalog.errors import CatalogError


def notebooks() -> list[Path]:
    """Where they lie: inside the package in a wheel, beside it in a checkout."""
    inside = sorted((Path(__file__).parent / "notebooks").glob("*.ipynb"))
    return inside or sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def question(path: Path) -> str:
    """The question a notebook is about: its title without the number."""
    title = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"]).splitlines()[0]
    return title.lstrip("# 0123456789")


def copy_notebook(name: str, dest: Path) -> Path:
    """Copy one; returns the file written.

    Args:
        name: Its number, or a part of its name that fits one.
        dest: A folder, or a file that is not there yet.

    Raises:
        CatalogError: No or several notebooks of that name, or the file is there.
    """
    found = [path for path in notebooks() if name in path.stem]
    if len(found) != 1:
        which = "no notebook" if not found else "several notebooks fit"
        listed = "\n  ".join(path.stem for path in found or notebooks())
        raise CatalogError(f"{which} {name}; there are\n  {listed}")
    out = dest / found[0].name if dest.is_dir() or not dest.suffix else dest
    if out.exists():
        raise CatalogError(f"{out} is there already: give another name, or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(found[0], out)
    return out
