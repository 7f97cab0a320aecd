"""Store outcomes: database, CSV files, environment."""
