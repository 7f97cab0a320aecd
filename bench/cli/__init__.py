"""Command line: flags, and the handlers of the commands."""
