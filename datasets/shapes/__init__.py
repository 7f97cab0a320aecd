"""The embedded shapes: one small generator a category, `rng -> (triangles, symmetry)`; `kit` holds the primitives."""
