"""Files of true poses."""

import json

import numpy as np
import pytest

from bench.pair.result import read_truth
from common.errors import InputError
from tests.bench.pair.synthetic_pair import T


@pytest.mark.parametrize("form", ["text", "rows", "field"])
def test_truth_is_read_from_text_and_json(tmp_path, form):
    file = tmp_path / ("t.txt" if form == "text" else "t.json")
    content = {"rows": T.tolist(), "field": {"T_target_source": T.ravel().tolist()}}
    if form == "text":
        np.savetxt(file, T, delimiter=",")
    else:
        file.write_text(json.dumps(content[form]))
    np.testing.assert_allclose(read_truth(file), T)
    file.write_text(json.dumps((2 * T).tolist()) if form != "text" else " ".join(map(str, (2 * T).ravel())))
    with pytest.raises(InputError, match="rigid"):
        read_truth(file)
