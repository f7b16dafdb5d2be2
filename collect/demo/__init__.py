"""The embedded default: items, tiny checkpoints, and the plan that collects them."""
