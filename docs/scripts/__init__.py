"""Scripts that write tables and figures of the pages in `docs/`."""
