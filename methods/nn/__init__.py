"""Torch building blocks of the learned methods: pure functions for mathematics, small modules for networks."""
