"""Networks of the learned methods, and their building blocks in torch."""
