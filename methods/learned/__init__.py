"""What learned methods share: weights and training."""
