"""Contract, registry, chains and provenance of methods."""
