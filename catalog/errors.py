"""The one error a user can mend; everything else is a bug and keeps its traceback."""


class CatalogError(Exception):
    """Says what was wanted, what was found and what to type next."""
