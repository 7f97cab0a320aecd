"""Problems in an HDF5 file: the same bits and the same results."""

import io
import resource

import h5py
import numpy as np
import pandas as pd
import pytest

from bench.cli import main
from bench.planning.export_problems import Writer, _CheckedFile
from bench.planning.tasks import ProblemGroup
from common.kinds import DataKind
from datasets.problems import Problem, ProblemKey, make_problem
from tests.bench.command_line import PLUGINS
from tests.catalog import open_data

BLOBS = ["--datasets", "blobs", "--points", "60", "--problems", "5", "--plugins", str(PLUGINS)]


RUN = ["--methods", "good", "lottery", "pca", "--timing-rounds", "0", "--jobs", "1"]


@pytest.fixture
def bench(tmp_path, monkeypatch, capsys):
    """Return a function that runs a command line in an empty folder and returns its output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.report.begin_report", lambda *_: list)

    def call(*arguments, expect=0):
        assert main.main([*map(str, arguments)]) == expect
        output = capsys.readouterr()
        return output.err if expect else output.out

    return call


def test_a_disk_that_gets_full_is_one_line_and_leaves_no_file(bench, tmp_path):
    """The limit on the size of files acts as the full disk; HDF5 alone would crash at the end of the process."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limits[1]))
    try:
        error = bench("problems", *BLOBS, "--conditions", "noisy", "--export", "p.h5", expect=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert error.startswith("bench.py: --export p.h5: the file may not grow further; raise the limit on file sizes")
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_file_reads_back_bit_for_bit(bench):
    output = bench("problems", *BLOBS, "--conditions", "noisy,density[target=33]", "--export", "p.h5").splitlines()
    assert [line.split("  ")[1] for line in output] == ["blobs/noisy/60", "blobs/density[target=33]/60"]
    read = open_data("pairs[path=p.h5]")
    assert len(read) == 10 and read.domain == "blobs"
    for row in range(10):
        condition = "noisy" if row < 5 else "density[target=33]"
        original = make_problem(open_data("blobs", None, PLUGINS), ProblemKey("blobs", condition, 60, row % 5))
        back = make_problem(read, ProblemKey("pairs", "real", 60, row))
        assert back.sha256() == original.sha256() and back.identity == original.identity
        for name in ("source", "target", "T_target_source", "source_pose", "evaluation_points"):
            before, after = getattr(original, name), getattr(back, name)
            assert before.dtype == after.dtype and before.tobytes() == after.tobytes()
        assert back.tags == original.tags and back.information is None
    assert read.pair(7).target.shape == (33, 3)


def test_the_kind_and_information_of_a_problem_are_read_back(tmp_path, monkeypatch):
    """Methods adapt their settings to the kind, so that a run on the file would otherwise not equal that on the set."""
    monkeypatch.chdir(tmp_path)
    cloud, T = np.random.default_rng(0).random((9, 3)).astype(np.float32), np.eye(4)
    tags = {"object": "s/1-0", "category": "s", "angle_deg": 0.0, "translation": 0.0, "overlap": 0.5, "symmetry": None}
    matrix = np.arange(36.0).reshape(6, 6)
    key = ProblemKey("rooms", "real", 9, 0, sampler="none")
    for kind in DataKind:
        with h5py.File("p.h5", "w") as handle:
            writer = Writer(handle)
            for information in (None, matrix):
                problem = Problem(key, cloud, cloud[:5], T, T, tags, information, cloud)
                writer.add(problem, ProblemGroup(None, None, 9, 9, "rooms", (), kind=kind))
            writer.finish({})
        read = open_data("pairs[path=p.h5]")
        assert read.kind == kind and read.domain == "rooms" and read.pair(0).information is None
        np.testing.assert_array_equal(read.pair(1).information, matrix)
        assert [len(cloud) for cloud in (read.pair(1).source, read.pair(1).target)] == [9, 5]


def test_shorter_clouds_end_with_nan_whichever_is_first(tmp_path):
    rng, T = np.random.default_rng(0), np.eye(4)
    clouds = [rng.random((n, 3)).astype(np.float32) for n in (5, 9, 4)]
    tags = dict.fromkeys(("object", "category", "symmetry"), "a") | {"overlap": 1.0}
    with h5py.File(tmp_path / "p.h5", "w") as handle:
        writer = Writer(handle)
        for index, cloud in enumerate(clouds):
            problem = Problem(ProblemKey("blobs", "clean", 9, index), cloud, clouds[0], T, T, tags, None, cloud)
            writer.add(problem, ProblemGroup(None, None, 9, 9, "blobs", ()))
        for name in ("source", "evaluation"):
            assert handle[name].shape == (3, 9, 3) and handle[name].dtype == np.float32
            for row, cloud in zip(handle[name], clouds, strict=True):
                np.testing.assert_array_equal(row[: len(cloud)], cloud)
                assert np.isnan(row[len(cloud) :]).all()
        assert handle["target"].shape == (3, 5, 3) and handle["transform"].shape == (3, 4, 4)


def test_hashes_are_the_same_for_the_set_and_its_file(bench):
    exported = bench("problems", *BLOBS, "--conditions", "noisy,clean", "--export", "p.h5")
    again = bench("problems", *BLOBS, "--conditions", "noisy,clean")
    assert exported == again and len(exported.split()[0]) == 64
    for line in exported.splitlines():
        sha256, cell = line.split("  ")
        read = bench("problems", "--datasets", f"pairs[path=p.h5,cell={cell}]", "--points", "60")
        assert read.split()[0] == sha256


def test_run_on_the_file_equals_the_run_on_the_data_set(bench, tmp_path):
    bench("problems", *BLOBS, "--conditions", "resampled", "--export", "p.h5")
    bench(*RUN, *BLOBS, "--conditions", "resampled", "--out", "made")
    out = bench(*RUN, "--datasets", "pairs[path=p.h5]", "--points", "60", "--plugins", PLUGINS, "--out", "read")
    assert "pairs[path=p.h5] has 5 pairs" in out
    both = [pd.read_csv(tmp_path / "results" / n / "trials.csv") for n in ("made", "read")]
    same = ["method", "object", "category", "angle_deg", "overlap", "status", "rmse", "rre_deg", "mean_distance"]
    pd.testing.assert_frame_equal(both[0][same], both[1][same], check_exact=True)
    assert len(both[0]) == 15 and set(both[1]["dataset"]) == {"pairs[path=p.h5]"}


def test_file_has_the_fields_of_the_paper_and_is_not_overwritten(bench, tmp_path):
    bench("problems", *BLOBS, "--conditions", "clean", "--export", "p.h5")
    with h5py.File(tmp_path / "p.h5") as file:
        assert file["source"].shape == file["target"].shape == (5, 60, 3) and file["transform"].shape == (5, 4, 4)
        moved = file["source"][0] @ file["transform"][0, :3, :3].T + file["transform"][0, :3, 3]
        nearest = np.linalg.norm(moved[:, None] - file["target"][0][None], axis=2).min(axis=1)
        assert nearest.max() < 1e-5
    assert "p.h5: exists already" in bench("problems", *BLOBS, "--conditions", "clean", "--export", "p.h5", expect=2)
    assert "cannot be written" in bench("problems", *BLOBS, "--export", "no/p.h5", expect=2)
    assert "unknown cell" in bench("problems", "--datasets", "pairs[path=p.h5,cell=blobs/clen/60]", expect=2)
    assert [p.name for p in tmp_path.iterdir()] == ["p.h5"]


def test_pairs_and_objects_in_one_run_get_their_own_conditions(bench):
    bench("problems", *BLOBS, "--conditions", "clean", "--export", "p.h5")
    output = bench(
        "problems", "--plugins", PLUGINS, "--datasets", "blobs,pairs[path=p.h5]", "--points", 60, "--problems", 2
    )
    cells = [line.split("  ")[1] for line in output.splitlines()]
    assert cells == [*(f"blobs/{c}/60" for c in ("clean", "noisy", "resampled")), "pairs[path=p.h5]/real/60"]


@pytest.mark.parametrize("fails", [None, "write", "truncate"])
def test_a_file_keeps_its_first_error_and_goes_on_as_if_there_were_none(tmp_path, fails):
    """HDF5 crashes if a call raises or does not take all bytes."""
    reasons = []

    class Disk(io.FileIO):
        def write(self, data):
            return self._full() if fails == "write" else super().write(bytes(data)[:3])  # in parts

        def truncate(self, size=None):
            return self._full() if fails == "truncate" else super().truncate(size)

        def _full(self):
            reasons.append(OSError(28, f"full {len(reasons)}"))
            raise reasons[-1]

    file = type("File", (_CheckedFile, Disk), {})(tmp_path / "a", "w+")
    with file:
        values = np.arange(5, dtype=np.int32)
        assert (file.write(values), file.truncate(30), file.write(b"1234567"), file.truncate(28)) == (20, 30, 7, 28)
        file.seek(0)
        if fails:
            assert file.error is reasons[0] and len(reasons) == 1 and (fails == "write") == (file.read() == b"")
            with pytest.raises(OSError, match="full 0"):
                file.check()
        else:
            file.check()
            assert file.read() == values.tobytes() + b"1234567\0"
