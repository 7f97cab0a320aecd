"""Furnished rooms in metres, a depth camera that sees them, and the fusion of its frames. Used by the data set `rooms`."""
