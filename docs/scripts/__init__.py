"""Scripts that write tables and figures of the docs pages."""
