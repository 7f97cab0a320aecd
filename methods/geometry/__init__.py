"""Geometry shared by methods."""
