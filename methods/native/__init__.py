"""Compiled kernels and libraries, and how they are built."""
