"""Command line: parse flags, call the commands."""
