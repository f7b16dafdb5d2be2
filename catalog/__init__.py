"""The forgetting catalog: which items a language model got right before and after post-training, in SQL."""

from typing import TYPE_CHECKING, Any

from catalog.errors import CatalogError

if TYPE_CHECKING:
    from catalog.open import SCHEMA_VERSION, connect
    from catalog.partial import download

__all__ = ["SCHEMA_VERSION", "CatalogError", "connect", "download"]


def __getattr__(name: str) -> Any:
    """Import DuckDB when it is first needed: `catalog --help` does without."""
    if name == "download":
        import catalog.partial

        return catalog.partial.download
    if name in ("connect", "SCHEMA_VERSION"):
        import catalog.open

        return getattr(catalog.open, name)
    raise AttributeError(f"module 'catalog' has no attribute {name!r}")
