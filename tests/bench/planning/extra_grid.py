"""Configuration file with an extra grid."""

FILE = """
methods = ["good"]
datasets = ["blobs"]
conditions = ["noisy"]
points = [60]
problems = 3
timing-rounds = 0

[[more]]
methods = ["good", "identity"]
datasets = ["blobs"]
conditions = ["noisy", "clean"]
points = [60, 40]
"""
