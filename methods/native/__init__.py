"""Compiled kernels and their builds."""
