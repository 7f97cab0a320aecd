"""Sources of objects, and the problems made of them. Nothing here imports `bench` or `methods`."""
