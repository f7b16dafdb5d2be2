"""The forgetting catalog: which items a language model got right before and after post-training, in SQL."""

from catalog.errors import CatalogError
from catalog.open import SCHEMA_VERSION, connect

__all__ = ["SCHEMA_VERSION", "CatalogError", "connect"]
