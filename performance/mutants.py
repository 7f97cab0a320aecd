"""Put single faults into copies of the code and print the share that the tests catch, by kind and by file.

    python -m performance.mutants [--sample N] [--per-file N] [--draw N] [--only TEXT] [--processes N] [--list]

Samples are disjoint: sample 1 consists of other faults than sample 0. `--draw` draws at random, with the sample as the seed. See
docs/contributing.md.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from performance.faults import Fault, faults_of

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "mutants.jsonl"
PER_FILE, LEAST, WORKERS = 5, 0.9, 2
TIMEOUT_S, SLOWDOWN = 300.0, 4
"""Least time after which tests count as endless, and how many times as long as without a fault they may take."""
PRELOADED = ("numpy", "pandas", "scipy.stats", "scipy.spatial", "matplotlib.figure", "rich.table", "pytest", "torch")
"""Packages that are imported once, before the processes of the tests are forked."""
EVALUATION, REPORT, EXECUTION = "tests/bench/evaluation", "tests/bench/report", "tests/bench/execution"
DOCTESTS = "tests/test_doctests.py::test_examples_give_the_documented_results"
CLOCK = f"{EXECUTION}/test_time_of_calls.py"
ISOLATION, STORAGE = "tests/bench/isolation", "tests/bench/storage"
METHODS, GEOMETRY = "tests/methods", "tests/methods/geometry"
SHOWN = f"{EVALUATION}/test_shown_statistics.py"
NUMBERS = f"{REPORT}/test_shown_numbers.py"
PINNED = "tests/datasets/test_determinism.py::test_digests_are_pinned"
LAWS = ["tests/datasets/test_laws.py", "tests/datasets/test_problems.py", PINNED]
PLANNING, PAIR, CLI = "tests/bench/planning", "tests/bench/pair", "tests/bench/cli"
FORMATS, INDOOR = "tests/datasets/formats", "tests/datasets/indoor"
NN = f"{METHODS}/nn"
OPTIONAL = f"{METHODS}/test_optional_packages.py"
SHAPES = "bathroom buildings devices lighting living primitives seating storage vehicles vessels".split()
PINNED_SHAPES = [f"tests/datasets/test_shapes40.py::test_{some}shapes_are_pinned" for some in ("", "rare_")]
STATED = "tests/test_numbers_of_docs.py"
KERNELS = f"{METHODS}/native/test_build.py"
PARAMETERS = f"{METHODS}/test_parameters.py"
DEFAULTS = f"{METHODS}/test_reference_parameters.py"
LAYOUT = f"{METHODS}/test_layout.py"
CALLS = f"{METHODS}/test_calls_of_methods.py"
TESTS = {
    "bench/evaluation/metrics.py": [
        f"{EVALUATION}/test_metrics.py",
        f"{DOCTESTS}[bench.evaluation.metrics]",
        f"{EVALUATION}/test_recomputed.py",
    ],
    "bench/evaluation/statistics.py": [
        f"{EVALUATION}/test_statistics_exact.py",
        f"{EVALUATION}/test_statistics.py",
        f"{DOCTESTS}[bench.evaluation.statistics]",
        STATED,
    ],
    "bench/evaluation/aggregate.py": [
        f"{EVALUATION}/test_recomputed.py",
        f"{EVALUATION}/test_aggregate.py",
        f"{EVALUATION}/test_conventions.py",
    ],
    "bench/evaluation/compare.py": [f"{EVALUATION}/test_compare.py", SHOWN],
    "bench/evaluation/conventions.py": [
        f"{EVALUATION}/test_conventions.py",
        f"{DOCTESTS}[bench.evaluation.conventions]",
    ],
    "bench/evaluation/clusters.py": [f"{EVALUATION}/test_clusters.py"],
    "bench/evaluation/fit.py": [f"{EVALUATION}/test_fit.py", STATED],
    "bench/evaluation/loader.py": [
        f"{EVALUATION}/test_loader.py",
        f"{EVALUATION}/test_recomputed.py",
        f"{EVALUATION}/test_aggregate.py",
    ],
    "bench/evaluation/problem_groups.py": [f"{EVALUATION}/test_problem_groups.py", f"{REPORT}/test_verify.py"],
    "bench/evaluation/protocols.py": [f"{EVALUATION}/test_protocols.py", f"{REPORT}/test_published.py"],
    "datasets/conditions.py": [f"{DOCTESTS}[datasets.conditions]", *LAWS, "tests/datasets/test_visibility.py"],
    "datasets/problems.py": LAWS,
    "datasets/poses.py": [f"{DOCTESTS}[datasets.poses]", *LAWS],
    "datasets/visibility.py": ["tests/datasets/test_visibility.py", PINNED],
    "bench/storage/database.py": [f"{STORAGE}/test_database.py"],
    "bench/storage/csv_writer.py": [f"{STORAGE}/test_csv_writer.py", f"{DOCTESTS}[bench.storage.csv_writer]"],
    "bench/storage/outcome.py": [f"{STORAGE}/test_outcome.py"],
    "bench/storage/pose.py": [f"{STORAGE}/test_pose.py", f"{STORAGE}/test_outcome.py", f"{ISOLATION}/test_received.py"],
    "bench/storage/union.py": [f"{STORAGE}/test_union.py", f"{REPORT}/test_merge.py"],
    "bench/execution/timing.py": [CLOCK, f"{EXECUTION}/test_timing.py"],
    "bench/execution/pool_worker.py": [
        CLOCK,
        f"{EXECUTION}/test_pool_worker.py",
        f"{EXECUTION}/test_pools.py",
        f"{EXECUTION}/test_batch.py",
    ],
    "bench/isolation/fork_server.py": [f"{ISOLATION}/test_fork_server.py", f"{ISOLATION}/test_process.py"],
    "bench/isolation/received.py": [f"{ISOLATION}/test_received.py", CLOCK],
    "bench/isolation/process.py": [CLOCK, f"{ISOLATION}/test_process.py"],
    "bench/isolation/measure.py": [f"{ISOLATION}/test_server.py", CLOCK],
    "bench/isolation/server.py": [
        f"{ISOLATION}/test_server.py",
        CLOCK,
        f"{ISOLATION}/test_process.py",
    ],
    "bench/report/ranking.py": [f"{REPORT}/test_ranking.py", SHOWN, f"{REPORT}/test_terminal.py"],
    "bench/report/recommendation.py": [NUMBERS, f"{REPORT}/test_terminal.py"],
    "bench/report/tables.py": [NUMBERS, f"{REPORT}/test_terminal.py", f"{REPORT}/test_tables.py"],
    "bench/report/terminal.py": [NUMBERS, f"{REPORT}/test_terminal.py"],
    "bench/report/figures.py": [NUMBERS, f"{REPORT}/test_figures.py"],
    "bench/report/interactive.py": [NUMBERS, SHOWN, f"{REPORT}/test_terminal.py"],
    "bench/report/as_good.py": [f"{REPORT}/test_as_good.py"],
    "bench/report/estimated_symmetry.py": [f"{REPORT}/test_estimated_symmetry.py", NUMBERS],
    "bench/report/merge.py": [f"{REPORT}/test_merge.py"],
    "bench/report/risk_coverage.py": [f"{REPORT}/test_risk_coverage.py"],
    "bench/report/selection.py": [f"{REPORT}/test_selection.py"],
    "bench/report/site.py": [f"{REPORT}/test_site.py"],
    "bench/report/solve_again.py": [f"{REPORT}/test_solve_again.py", f"{REPORT}/test_verify.py"],
    "bench/report/verify.py": [
        f"{REPORT}/test_verify_claims.py",
        f"{REPORT}/test_verify.py",
        f"{REPORT}/test_merge.py",
    ],
    "methods/icp.py": [DEFAULTS, PARAMETERS, CALLS, LAYOUT, f"{METHODS}/test_icp.py"],
    "methods/fgr.py": [DEFAULTS, PARAMETERS, CALLS, LAYOUT, f"{METHODS}/test_geometric_methods.py"],
    "methods/pca.py": [DEFAULTS, f"{METHODS}/test_pca.py", PARAMETERS],
    "methods/deepgmr_scans.py": [f"{METHODS}/test_deepgmr_scans.py", DEFAULTS, PARAMETERS],
    "methods/sc2_pcr.py": [DEFAULTS, CALLS, f"{METHODS}/test_match_methods.py", PARAMETERS],
    "methods/so3_grid.py": [DEFAULTS, f"{METHODS}/test_so3_grid.py", PARAMETERS],
    "methods/teaser.py": [
        DEFAULTS,
        CALLS,
        f"{METHODS}/test_teaser.py",
        f"{GEOMETRY}/test_features.py",
        f"{METHODS}/native/test_teaser.py",
    ],
    "methods/native/build.py": [KERNELS, f"{METHODS}/native/test_rri.py", f"{METHODS}/native/test_teaser.py"],
    "methods/native/clique.py": [KERNELS, f"{METHODS}/native/test_clique.py"],
    "methods/native/fpfh.py": [KERNELS, f"{GEOMETRY}/test_fpfh.py"],
    "methods/native/rri.py": [KERNELS, f"{METHODS}/native/test_rri.py"],
    "methods/native/search.py": [KERNELS, f"{GEOMETRY}/test_search.py", f"{METHODS}/test_so3_grid.py"],
    "methods/native/teaser.py": [f"{METHODS}/native/test_teaser.py", f"{METHODS}/test_teaser.py"],
    "methods/geometry/compatibility.py": [f"{GEOMETRY}/test_compatibility.py", f"{METHODS}/test_match_methods.py"],
    "methods/geometry/compatible_matches.py": [DEFAULTS, f"{METHODS}/test_match_methods.py"],
    "methods/geometry/fpfh.py": [f"{GEOMETRY}/test_fpfh.py", DEFAULTS],
    "methods/geometry/hgmm.py": [f"{GEOMETRY}/test_hgmm.py", f"{METHODS}/test_hgmr.py"],
    "methods/geometry/learned_matches.py": [f"{GEOMETRY}/test_learned_matches.py", PARAMETERS],
    "methods/geometry/partial_icp.py": [f"{GEOMETRY}/test_partial_icp.py", DEFAULTS],
    "methods/geometry/patches.py": [f"{GEOMETRY}/test_patches.py", f"{GEOMETRY}/test_learned_matches.py"],
    "methods/geometry/principal_axes.py": [f"{GEOMETRY}/test_principal_axes.py", f"{METHODS}/test_pca.py"],
    "methods/geometry/search.py": [
        f"{GEOMETRY}/test_search.py",
        f"{DOCTESTS}[methods.geometry.search]",
        f"{METHODS}/test_so3_grid.py",
        DEFAULTS,
    ],
    "methods/geometry/settings.py": [f"{GEOMETRY}/test_settings.py", f"{GEOMETRY}/test_partial_icp.py"],
    "methods/geometry/verification.py": [f"{GEOMETRY}/test_verification.py", DEFAULTS],
    "methods/geometry/viewpoint.py": [f"{GEOMETRY}/test_viewpoint.py", DEFAULTS],
    "methods/geometry/icp.py": [f"{GEOMETRY}/test_icp.py", f"{METHODS}/test_icp.py"],
    "methods/geometry/ransac.py": [f"{GEOMETRY}/test_ransac.py", PARAMETERS],
    "methods/geometry/features.py": [
        DEFAULTS,
        f"{GEOMETRY}/test_features.py",
        PARAMETERS,
        f"{GEOMETRY}/test_learned_matches.py",
    ],
    "methods/learned/base.py": [DEFAULTS, PARAMETERS, f"{METHODS}/learned/test_base.py"],
    "methods/learned/described_scans.py": [f"{METHODS}/test_deepgmr_scans.py", DEFAULTS],
    "methods/learned/descriptor.py": [f"{GEOMETRY}/test_learned_matches.py", f"{METHODS}/nn/test_descriptor.py"],
    "methods/learned/external.py": [f"{METHODS}/learned/test_external.py", f"{METHODS}/test_optional_packages.py"],
    "methods/learned/gmr.py": [f"{METHODS}/learned/test_gmr.py", f"{METHODS}/test_deepgmr.py", DEFAULTS, LAYOUT],
    "methods/learned/training.py": [f"{METHODS}/learned/test_training.py"],
    "methods/learned/training_config.py": [f"{METHODS}/learned/test_training_config.py", f"{CLI}/test_flags.py"],
    "methods/learned/training_data.py": [
        f"{METHODS}/learned/test_training_data.py",
        f"{METHODS}/learned/test_training.py",
    ],
    "methods/learned/weights.py": [f"{METHODS}/learned/test_weights.py", f"{METHODS}/learned/test_base.py"],
    "bench/report/cells.py": [f"{REPORT}/test_cells.py"],
    "bench/report/fonts.py": [f"{REPORT}/test_fonts.py"],
    "bench/report/trends.py": [NUMBERS, f"{REPORT}/test_figures.py"],
    "bench/report/panels.py": [
        f"{REPORT}/test_panels.py",
        NUMBERS,
        f"{REPORT}/test_figures.py",
        f"{DOCTESTS}[bench.report.panels]",
    ],
    "bench/report/paper.py": [f"{REPORT}/test_paper.py", NUMBERS],
    "bench/report/published.py": [f"{REPORT}/test_published.py"],
    "bench/report/table.py": [f"{REPORT}/test_table.py", NUMBERS],
    "bench/report/style.py": [
        f"{REPORT}/test_style.py",
        f"{DOCTESTS}[bench.report.style]",
        NUMBERS,
        f"{REPORT}/test_panels.py",
    ],
    "bench/report/replay.py": [f"{REPORT}/test_replay.py"],
    "bench/report/gaussians.py": [f"{REPORT}/test_qualitative.py", f"{REPORT}/test_gaussians.py"],
    "bench/report/qualitative.py": [f"{REPORT}/test_qualitative.py"],
    "bench/report/failure_cases.py": [f"{REPORT}/test_failure_cases.py"],
    "bench/report/embed.py": [f"{REPORT}/test_embed.py"],
    "bench/report/html.py": [f"{REPORT}/test_html.py", f"{REPORT}/test_build.py"],
    "bench/report/jobs.py": [f"{REPORT}/test_jobs.py"],
    "bench/report/subset.py": [f"{REPORT}/test_subset.py"],
    "bench/report/show.py": [f"{REPORT}/test_show.py"],
    "bench/report/build.py": [f"{REPORT}/test_build.py"],
    "bench/report/command.py": [f"{REPORT}/test_command.py", f"{REPORT}/test_build.py"],
    "bench/storage/environment.py": [f"{STORAGE}/test_environment.py"],
    "bench/storage/evaluation_points.py": [f"{STORAGE}/test_evaluation_points.py", f"{EVALUATION}/test_loader.py"],
    "bench/storage/run_folder.py": [f"{STORAGE}/test_run_folder.py"],
    "bench/storage/run_json.py": [f"{STORAGE}/test_run_json.py", f"{DOCTESTS}[bench.storage.run_json]"],
    "bench/storage/seeds.py": [f"{STORAGE}/test_union.py", f"{DOCTESTS}[bench.storage.seeds]"],
    "bench/execution/run.py": [
        f"{EXECUTION}/test_notes.py",
        f"{EXECUTION}/test_steps_of_a_run.py",
        f"{EXECUTION}/test_run.py",
    ],
    "bench/execution/executor.py": [f"{EXECUTION}/test_pools.py", f"{EXECUTION}/test_executor.py"],
    "bench/execution/progress.py": [f"{EXECUTION}/test_progress.py"],
    "bench/execution/context.py": [f"{EXECUTION}/test_steps_of_a_run.py"],
    "bench/__init__.py": ["tests/bench/test_load.py"],
    "bench/isolation/guard.py": [f"{ISOLATION}/test_guard.py"],
    "bench/isolation/interrupt.py": [f"{ISOLATION}/test_interrupt.py"],
    "bench/isolation/protocol.py": [
        f"{ISOLATION}/test_received.py",
        f"{ISOLATION}/test_process.py",
        f"{ISOLATION}/test_server.py",
    ],
    "bench/planning/catalog.py": [f"{PLANNING}/test_config.py", f"{CLI}/test_listing.py"],
    "bench/planning/config.py": [f"{PLANNING}/test_config.py", f"{PLANNING}/test_config_file.py"],
    "bench/planning/config_file.py": [
        f"{PLANNING}/test_config_file.py",
        f"{DOCTESTS}[bench.planning.config_file]",
        f"{PLANNING}/test_config.py",
    ],
    "bench/planning/dry_run.py": [f"{PLANNING}/test_dry_run.py"],
    "bench/planning/export_problems.py": [f"{PLANNING}/test_export_problems.py"],
    "bench/planning/tasks.py": [f"{PLANNING}/test_tasks.py"],
    "bench/pair/agreement.py": [
        f"{PAIR}/test_agreement.py",
        f"{DOCTESTS}[bench.pair.agreement]",
        f"{PAIR}/test_grade.py",
    ],
    "bench/pair/clouds.py": [f"{PAIR}/test_clouds.py"],
    "bench/pair/command.py": [f"{PAIR}/test_result.py", f"{PAIR}/test_command.py"],
    "bench/pair/families.py": [f"{PAIR}/test_families.py", f"{DOCTESTS}[bench.pair.families]"],
    "bench/pair/files.py": [f"{PAIR}/test_result.py", f"{PAIR}/test_command.py"],
    "bench/pair/folder.py": [f"{PAIR}/test_folder.py", f"{PAIR}/test_command.py"],
    "bench/pair/freedom.py": [f"{PAIR}/test_freedom.py"],
    "bench/pair/grade.py": [f"{PAIR}/test_grade.py"],
    "bench/pair/kind.py": [f"{PAIR}/test_kind.py"],
    "bench/pair/figure.py": [f"{PAIR}/test_result.py", f"{PAIR}/test_command.py"],
    "bench/pair/page.py": [f"{PAIR}/test_result.py", f"{PAIR}/test_command.py"],
    "bench/pair/register.py": [f"{PAIR}/test_register.py", f"{PAIR}/test_command.py"],
    "bench/pair/result.py": [f"{PAIR}/test_result.py", f"{PAIR}/test_grade.py", f"{PAIR}/test_command.py"],
    "bench/pair/text.py": [f"{PAIR}/test_text.py", f"{DOCTESTS}[bench.pair.text]", f"{PAIR}/test_command.py"],
    "bench/pair/truth.py": [f"{PAIR}/test_truth.py", f"{PAIR}/test_command.py"],
    "bench/tuning.py": ["tests/bench/test_tuning.py"],
    "bench/cli/doctor.py": [f"{CLI}/test_doctor.py", f"{CLI}/test_handlers.py"],
    "bench/cli/listing.py": [f"{CLI}/test_listing.py"],
    "bench/cli/commands.py": [
        f"{CLI}/test_flags.py",
        f"{CLI}/test_handlers.py",
        f"{CLI}/test_main.py",
        f"{CLI}/test_scaffold.py",
    ],
    "bench/cli/sharing.py": [
        f"{CLI}/test_flags.py",
        f"{CLI}/test_handlers.py",
        f"{REPORT}/test_merge.py",
        f"{REPORT}/test_site.py",
    ],
    "bench/cli/main.py": [
        f"{CLI}/test_flags.py",
        f"{CLI}/test_handlers.py",
        f"{CLI}/test_main.py",
        f"{CLI}/test_listing.py",
    ],
    "bench/cli/scaffold.py": [f"{CLI}/test_scaffold.py"],
    "bench/conformance/checks.py": ["tests/bench/conformance/test_checks.py"],
    "bench/conformance/server.py": ["tests/bench/conformance/test_checks.py"],
    "bench/conformance/command.py": ["tests/bench/conformance/test_command.py"],
    "common/devices.py": ["tests/common/test_devices.py", f"{DOCTESTS}[common.devices]"],
    "common/errors.py": ["tests/common/test_errors.py"],
    "common/parallel.py": [f"{REPORT}/test_jobs.py"],
    "common/garbage.py": ["tests/common/test_garbage.py"],
    "common/files.py": ["tests/common/test_files.py"],
    "common/inspection.py": ["tests/common/test_inspection.py"],
    "common/kinds.py": ["tests/common/test_kinds.py", f"{DOCTESTS}[common.kinds]"],
    "common/keys.py": ["tests/common/test_keys.py", f"{DOCTESTS}[common.keys]", PINNED],
    "common/moments.py": ["tests/common/test_moments.py", f"{DOCTESTS}[common.moments]"],
    "common/plugins.py": ["tests/common/test_plugins.py"],
    "common/portable.py": ["tests/common/test_portable.py", PINNED],
    "common/processes.py": ["tests/common/test_processes.py"],
    "common/rigid.py": ["tests/common/test_rigid.py"],
    "common/specs.py": ["tests/common/test_specs.py", f"{DOCTESTS}[common.specs]"],
    "common/text.py": ["tests/common/test_text.py", f"{DOCTESTS}[common.text]"],
    "datasets/base.py": ["tests/datasets/test_protocol.py", "tests/datasets/test_problems.py", PINNED],
    "datasets/cache.py": ["tests/datasets/test_cache.py"],
    "datasets/download.py": ["tests/datasets/test_download.py"],
    "datasets/folder.py": ["tests/datasets/test_real_sets.py", PINNED],
    "datasets/fragments.py": ["tests/datasets/test_real_sets.py", PINNED],
    "datasets/fragment_layouts.py": ["tests/datasets/test_real_sets.py", PINNED],
    "datasets/icl_nuim.py": ["tests/datasets/test_real_sets.py", PINNED],
    "datasets/icl_nuim_pairs.py": ["tests/datasets/test_real_sets.py", PINNED],
    "datasets/information.py": [
        "tests/datasets/test_information.py",
        f"{DOCTESTS}[datasets.information]",
        "tests/datasets/test_real_sets.py",
        PINNED,
    ],
    "datasets/modelnet40.py": ["tests/datasets/test_modelnet40.py", PINNED],
    "datasets/pair_list.py": ["tests/datasets/test_real_sets.py", PINNED],
    "datasets/pairs.py": [f"{PLANNING}/test_export_problems.py", "tests/datasets/test_real_sets.py", PINNED],
    "datasets/registry.py": [
        "tests/datasets/test_protocol.py",
        "tests/datasets/test_real_sets.py",
        f"{CLI}/test_listing.py",
        "tests/common/test_plugins.py",
    ],
    "datasets/description.py": ["tests/common/test_plugins.py", f"{CLI}/test_listing.py"],
    "datasets/rooms.py": ["tests/datasets/test_rooms.py", f"{DOCTESTS}[datasets.rooms]", PINNED],
    "datasets/scans.py": [f"{DOCTESTS}[datasets.scans]", "tests/datasets/test_real_sets.py", PINNED],
    "datasets/shapes40.py": ["tests/datasets/test_shapes40.py", PINNED],
    "datasets/stanford.py": ["tests/datasets/test_real_sets.py", PINNED],
    "datasets/symmetry.py": ["tests/datasets/test_symmetry.py"],
    "datasets/symmetry_estimate.py": ["tests/datasets/test_symmetry_estimate.py"],
    "datasets/formats/arrays.py": [f"{FORMATS}/test_arrays.py", f"{FORMATS}/test_reading.py"],
    "datasets/formats/geometry.py": [f"{FORMATS}/test_geometry.py", f"{DOCTESTS}[datasets.formats.geometry]"],
    "datasets/formats/hdf5.py": [f"{FORMATS}/test_hdf5.py"],
    "datasets/formats/las.py": [f"{FORMATS}/test_las.py"],
    "datasets/formats/limited.py": [f"{FORMATS}/test_limited.py"],
    "datasets/formats/meshes.py": [f"{FORMATS}/test_meshes.py", f"{FORMATS}/test_reading.py"],
    "datasets/formats/numbers.py": [f"{FORMATS}/test_numbers.py", f"{DOCTESTS}[datasets.formats.numbers]"],
    "datasets/formats/pcd.py": [f"{FORMATS}/test_pcd.py", f"{FORMATS}/test_reading.py"],
    "datasets/formats/ply.py": [f"{FORMATS}/test_ply.py", f"{FORMATS}/test_reading.py"],
    "datasets/formats/pth.py": [f"{FORMATS}/test_pth.py"],
    "datasets/formats/server.py": [f"{FORMATS}/test_limited.py", f"{FORMATS}/test_reading.py"],
    "datasets/formats/reading.py": [f"{FORMATS}/test_reading.py", f"{DOCTESTS}[datasets.formats.reading]"],
    "datasets/formats/tables.py": [
        f"{FORMATS}/test_tables.py",
        f"{DOCTESTS}[datasets.formats.tables]",
        f"{FORMATS}/test_arrays.py",
        f"{FORMATS}/test_text.py",
    ],
    "datasets/formats/text.py": [f"{FORMATS}/test_text.py", f"{FORMATS}/test_reading.py"],
    "datasets/indoor/camera.py": [f"{INDOOR}/test_camera.py", PINNED],
    "datasets/indoor/fragments.py": [f"{INDOOR}/test_fragments.py", PINNED],
    **{f"datasets/indoor/{name}.py": [f"{INDOOR}/test_layout.py", PINNED] for name in ("furniture", "layout", "walls")},
    **{f"datasets/shapes/{name}.py": PINNED_SHAPES for name in SHAPES},
    **{f"methods/{name}.py": [CALLS, OPTIONAL, DEFAULTS] for name in ("cpd", "fricp", "kiss_matcher", "small_gicp")},
    **{
        f"methods/{name}.py": [f"{METHODS}/learned/test_external.py", DEFAULTS]
        for name in ("buffer_x", "fcgf", "geotransformer", "predator")
    },
    "methods/dcp.py": [f"{METHODS}/test_dcp.py", f"{NN}/test_dcp.py"],
    "methods/deepgmr.py": [f"{METHODS}/test_deepgmr.py", f"{NN}/test_gmr.py", DEFAULTS],
    "methods/deepgmr_ablations.py": [f"{METHODS}/test_deepgmr.py"],
    "methods/deepgmr_resampled.py": [CALLS, f"{METHODS}/test_deepgmr_resampled.py", DEFAULTS],
    "methods/hgmr.py": [CALLS, f"{METHODS}/test_hgmr.py", DEFAULTS],
    "methods/mac.py": [f"{METHODS}/test_match_methods.py", DEFAULTS],
    "methods/pointnetlk.py": [CALLS, f"{METHODS}/test_pointnetlk.py", DEFAULTS],
    "methods/prnet.py": [f"{METHODS}/test_prnet.py"],
    **{f"methods/{name}.py": [f"{METHODS}/test_controls.py"] for name in ("identity", "index_match", "random_pose")},
    "methods/ransac.py": [f"{METHODS}/test_ransac.py", PARAMETERS, DEFAULTS],
    "methods/turbo_reg.py": [f"{METHODS}/test_match_methods.py", DEFAULTS],
    "methods/core/base.py": [f"{METHODS}/core/test_base.py", f"{DOCTESTS}[methods.core.base]"],
    "methods/core/chain.py": [f"{METHODS}/core/test_chain.py"],
    "methods/core/description.py": [f"{METHODS}/core/test_description.py", OPTIONAL, f"{CLI}/test_listing.py"],
    "methods/core/provenance.py": [f"{METHODS}/core/test_provenance.py"],
    "methods/core/registry.py": [
        f"{METHODS}/core/test_registry.py",
        f"{DOCTESTS}[methods.core.registry]",
        "tests/common/test_plugins.py",
        OPTIONAL,
    ],
    "methods/core/tuned.py": [f"{METHODS}/core/test_tuned.py", "tests/bench/test_tuning.py"],
    "methods/learned/training_curve.py": [f"{METHODS}/learned/test_training_curve.py"],
    "methods/native/rri_cuda.py": [f"{METHODS}/native/test_rri_cuda.py", f"{NN}/test_rri_batched.py"],
    "methods/geometry/open3d_bridge.py": [f"{GEOMETRY}/test_features.py"],
    "methods/learned/trained.py": [
        f"{METHODS}/learned/test_base.py",
        f"{METHODS}/learned/test_weights.py",
        f"{METHODS}/test_deepgmr.py",
    ],
    "methods/native/descriptor.py": [f"{GEOMETRY}/test_learned_matches.py"],
    "methods/nn/aligned.py": [f"{NN}/test_aligned.py", f"{METHODS}/test_deepgmr_resampled.py"],
    "methods/nn/dcp.py": [f"{NN}/test_dcp.py"],
    "methods/nn/descriptor.py": [f"{NN}/test_descriptor.py"],
    "methods/nn/descriptor_batch.py": [f"{NN}/test_descriptor.py"],
    "methods/nn/dgcnn.py": [f"{NN}/test_precision.py", f"{NN}/test_dgcnn.py", f"{NN}/test_dcp.py"],
    "methods/nn/gmm.py": [f"{NN}/test_gmm.py", f"{METHODS}/learned/test_training.py"],
    "methods/nn/gmr.py": [f"{NN}/test_gmr.py", f"{METHODS}/learned/test_training.py", f"{METHODS}/test_deepgmr.py"],
    "methods/nn/inference.py": [f"{NN}/test_inference.py"],
    "methods/nn/lk.py": [f"{NN}/test_precision.py", f"{NN}/test_lk.py", f"{METHODS}/test_pointnetlk.py"],
    "methods/nn/matching.py": [
        f"{NN}/test_precision.py",
        f"{NN}/test_matching.py",
        f"{NN}/test_dcp.py",
        f"{NN}/test_prnet.py",
    ],
    "methods/nn/pair_batch.py": [f"{NN}/test_pair_batch.py"],
    "methods/nn/pointnet.py": [f"{NN}/test_pointnet.py", f"{NN}/test_precision.py"],
    "methods/nn/prnet.py": [f"{NN}/test_precision.py", f"{NN}/test_prnet.py"],
    "methods/nn/rri.py": [f"{NN}/test_rri.py"],
    "methods/nn/rri_batched.py": [f"{NN}/test_rri_batched.py"],
    "methods/nn/scan_gmr.py": [f"{NN}/test_scan_gmr.py", f"{METHODS}/test_deepgmr_scans.py"],
    "methods/nn/threads.py": [f"{NN}/test_threads.py"],
    "methods/nn/transformer.py": [f"{NN}/test_transformer.py", f"{NN}/test_dcp.py"],
}
TESTS |= {
    file: [*tests, LAYOUT]
    for file, tests in TESTS.items()
    if Path(file).parent == Path("methods") and LAYOUT not in tests
}
"""Tests by the file whose faults they should catch; those that catch most come first."""


class Result(NamedTuple):
    """A fault with the digests of the code and of its tests, whether a test failed, and how long that took."""

    fault: Fault
    code: str
    tests: str
    caught: bool
    seconds: float


class Running(NamedTuple):
    """A process that runs tests in a work folder, and the time after which they count as endless."""

    fault: Fault
    folder: Path
    start: float
    deadline: float


def limit_of(fault: Fault, plain: dict[str, float]) -> float:
    """Return the seconds after which the tests of a fault count as endless, from those that each takes without a fault."""
    return max(TIMEOUT_S, SLOWDOWN * sum(plain.get(test, 0.0) for test in tests_of(fault)))


def sample(number: int, per_file: int, only: str) -> list[Fault]:
    """Return the faults of a sample: `per_file` of each file whose path contains `only`."""
    chosen = [faults_of(ROOT, file)[number * per_file : (number + 1) * per_file] for file in TESTS if only in file]
    return [fault for faults in chosen for fault in faults]


def draw(count: int, seed: int, only: str) -> list[Fault]:
    """Return faults drawn at random: folders take turns, and so do the kinds of a folder's faults."""
    by_folder: dict[str, dict[str, list[Fault]]] = {}
    for fault in (fault for file in TESTS if only in file for fault in faults_of(ROOT, file)):
        by_folder.setdefault(str(Path(fault.file).parent), {}).setdefault(fault.kind, []).append(fault)
    rng = random.Random(seed)
    turns = (
        _in_turn([rng.sample(by_kind[kind], len(by_kind[kind])) for kind in rng.sample(sorted(by_kind), len(by_kind))])
        for by_kind in by_folder.values()
    )
    return _in_turn(list(turns))[:count]


def _in_turn(lists: list[list[Fault]]) -> list[Fault]:
    """Return the first fault of each list, then the second ones, and so on."""
    return [fault for turn in itertools.zip_longest(*lists) for fault in turn if fault]


def digests(fault: Fault) -> tuple[str, str]:
    """Return the digests of the code with a fault and of the tests that should catch it."""
    if fault.file in TESTS:
        code = fault.file.encode() + fault.apply((ROOT / fault.file).read_bytes())
    else:
        code = fault.file.encode() + b"".join((ROOT / file).read_bytes() for file in TESTS)
    tests = b"".join((ROOT / name.split("::")[0]).read_bytes() for name in tests_of(fault))
    return hashlib.sha256(code).hexdigest(), hashlib.sha256(tests).hexdigest()


def known_results() -> dict[tuple[str, str], Result]:
    """Return earlier results by their digests, so that an interrupted run continues."""
    lines = RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.is_file() else []
    rows = [json.loads(line) for line in lines]
    results = [Result(Fault(*row["fault"]), row["code"], row["tests"], row["caught"], row["seconds"]) for row in rows]
    return {(result.code, result.tests): result for result in results}


def without_fault(file: str) -> Fault:
    """Return the fault that changes nothing; `file` is also a file of tests, which must pass without a fault."""
    return Fault(file, "none", 0, "", "", 0, 0)


def tests_of(fault: Fault) -> list[str]:
    """Return the tests that are run with a fault."""
    return TESTS.get(fault.file, [fault.file])


def run_all(
    faults: list[Fault], plain: dict[str, float], processes: int = WORKERS
) -> Iterator[tuple[Fault, bool, float]]:
    """Run the tests of each fault in a separate process, `processes` at a time.

    `plain` has the seconds of each test without a fault. Yields faults in the order in which they end, whether a test failed or
    did not end, and the seconds.
    """
    with tempfile.TemporaryDirectory() as place:
        folders = [Path(place) / str(number) for number in range(min(processes, len(faults)))]
        for folder in folders:
            shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__", "build"))
        waiting, running = deque(faults), dict[int, Running]()
        try:
            while waiting or running:
                while waiting and folders:
                    fault = waiting.popleft()
                    process, pid = _start(fault, folders.pop(), limit_of(fault, plain))
                    running[pid] = process
                ended = [(pid, caught) for pid in running if (caught := _end(pid, running[pid])) is not None]
                for pid, caught in ended:
                    process = running.pop(pid)
                    _write(process.folder, without_fault(process.fault.file))
                    folders.append(process.folder)
                    yield process.fault, caught, time.monotonic() - process.start
                time.sleep(0.05)
        finally:
            for pid in running:
                _kill(pid)


def _start(fault: Fault, folder: Path, limit_s: float) -> tuple[Running, int]:
    """Write a fault into a work folder and fork a process that runs its tests."""
    _write(folder, fault)
    now = time.monotonic()
    pid = os.fork()
    if not pid:
        try:
            os.setsid()
            os._exit(_run_tests(folder, tests_of(fault)))
        finally:
            os._exit(99)
    return Running(fault, folder, now, now + limit_s), pid


def _write(folder: Path, fault: Fault) -> None:
    """Write a file with a fault. Its time is one that no other fault has, so that no compiled code of another is used."""
    if fault.file not in TESTS:
        return
    code = fault.apply((ROOT / fault.file).read_bytes())
    stamp = 1_000_000_000 + int.from_bytes(hashlib.sha256(code).digest()[:3])
    (folder / fault.file).write_bytes(code)
    os.utime(folder / fault.file, (stamp, stamp))


def _run_tests(folder: Path, tests: list[str]) -> int:
    """Run tests in a work folder, in a forked process; return the exit status of pytest."""
    import pytest

    log = os.open(folder / "pytest.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    sys.path[:] = [str(folder), *(path for path in sys.path if path and Path(path).resolve() != ROOT)]
    for name in [name for name in sys.modules if name.split(".")[0] == "performance"]:
        del sys.modules[name]
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests]))


def _end(pid: int, process: Running) -> bool | None:
    """Return whether the tests of a process failed or did not end in time; None while they run."""
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        return status != 0
    if time.monotonic() < process.deadline:
        return None
    _kill(pid)
    return True


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def results_of(
    faults: list[Fault], known: dict[tuple[str, str], Result], plain: dict[str, float], processes: int = WORKERS
) -> Iterator[Result]:
    """Yield the results of faults: the known ones, and the others as they are computed, which are stored.

    A fault that was caught is known whatever its tests are now. Tests that failed without a fault are run again.
    """
    keys = {fault: digests(fault) for fault in faults}
    known = {key: result for key, result in known.items() if result.fault.kind != "none" or not result.caught}
    caught = {code: result for (code, _), result in known.items() if result.caught}
    old = {fault: known.get(key) or caught.get(key[0]) for fault, key in keys.items()}
    yield from (result._replace(fault=fault) for fault, result in old.items() if result)
    new = [fault for fault, result in old.items() if not result]
    RESULTS.parent.mkdir(exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as file:
        for fault, failed, seconds in run_all(new, plain, processes):
            result = Result(fault, *keys[fault], failed, round(seconds, 1))
            file.write(json.dumps(result._asdict()) + "\n")
            file.flush()
            yield result


def print_shares(results: list[Result]) -> float:
    """Print the share of caught faults by kind and by file, and return that of all."""
    for name in ("kind", "file"):
        total = Counter(getattr(result.fault, name) for result in results)
        caught = Counter(getattr(result.fault, name) for result in results if result.caught)
        for key in sorted(total):
            print(f"{key:34}{caught[key]:4} of {total[key]}")
        print()
    share = sum(result.caught for result in results) / max(len(results), 1)
    print(f"{'all':34}{sum(result.caught for result in results):4} of {len(results)}: {share:.1%}")
    return share


def _arguments() -> Any:
    parser = argparse.ArgumentParser(description="Put single faults into copies of the code; print the share caught.")
    parser.add_argument("--sample", type=int, default=0, help="number of the sample; samples are disjoint")
    parser.add_argument("--per-file", type=int, default=PER_FILE, help="faults of each file")
    parser.add_argument(
        "--draw", type=int, default=0, help="draw this many faults at random, with the sample as the seed"
    )
    parser.add_argument("--processes", type=int, default=WORKERS, help="tests that run at a time")
    parser.add_argument("--only", default="", help="only files whose path contains this text")
    parser.add_argument("--list", action="store_true", help="list the faults and run nothing")
    return parser.parse_args()


def main() -> int:
    """Run a sample of faults; return 1 if the share is below `LEAST`."""
    arguments = _arguments()
    if arguments.draw:
        faults = draw(arguments.draw, arguments.sample, arguments.only)
    else:
        faults = sample(arguments.sample, arguments.per_file, arguments.only)
    if arguments.list:
        for fault in faults:
            print(f"{fault.file}:{fault.line} {fault.kind}: {fault.before} -> {fault.after}")
        return 0
    # plug-ins of pytest take longer to load than most tests
    os.environ |= {"OMP_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for name in PRELOADED:
        importlib.import_module(name)
    tests = dict.fromkeys(test for fault in faults for test in TESTS[fault.file])
    plain: dict[str, float] = {}
    for result in results_of([without_fault(test) for test in tests], known_results(), plain, arguments.processes):
        if result.caught:
            sys.exit(f"{result.fault.file} fails without a fault; run it")
        plain[result.fault.file] = result.seconds
    results = []
    for result in results_of(faults, known_results(), plain, arguments.processes):
        results.append(result)
        fault, endless = result.fault, result.caught and result.seconds >= limit_of(result.fault, plain)
        if endless or not result.caught:
            verdict = "does not end" if endless else "not caught"
            print(f"{verdict}: {fault.file}:{fault.line} {fault.kind}: {fault.before} -> {fault.after}", flush=True)
    print()
    return int(print_shares(results) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
