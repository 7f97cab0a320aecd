"""`bench.py pair A B`: two clouds of one's own, registered by every method and compared without a truth."""
