"""The embedded shapes: one generator per category, `rng -> (triangles, symmetry)`; `primitives` holds the primitives."""
