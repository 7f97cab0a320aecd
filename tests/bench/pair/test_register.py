"""Methods on a pair."""

import re

from bench.cli import main
from bench.isolation.protocol import Limits
from bench.pair import clouds
from bench.pair.register import register_all
from tests.catalog import open_data, spec


def test_a_learned_method_without_weights_gives_a_working_command(files):
    scans = clouds.open_scans((files / "a.xyz", files / "b.ply"), 400, None)
    (registration,) = register_all(scans, [spec("dcp")], Limits(20, 8), "shapes40", "cpu", 1)
    assert registration.status == "skipped"
    command = re.search(r"bench\.py train (.*)", registration.message)[1]
    dataset = main._parser(train=True)[0].parse_args(["train", *command.split()]).dataset
    assert open_data(dataset).name == dataset
