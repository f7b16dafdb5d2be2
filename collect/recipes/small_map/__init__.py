"""The small map of forgetting: checkpoints of one real small model, trained on CPU, and what they are asked."""
