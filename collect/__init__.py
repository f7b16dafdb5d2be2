"""Collect outcomes: run models on benchmark items and write one Parquet file a run."""
