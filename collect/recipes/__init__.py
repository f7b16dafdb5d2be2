"""Scripts that made the shipped models and data."""
