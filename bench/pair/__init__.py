"""`bench.py pair A B`: register two point cloud files by every method and compare the poses without ground truth."""
