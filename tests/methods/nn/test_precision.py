"""Under autocast, as in training, what must be exact is computed in float32; the other products are in bfloat16."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from methods.nn.dgcnn import EdgeConv
from methods.nn.lk import LkConfig, LkNet
from methods.nn.matching import pose_of_matches, scores_of
from methods.nn.pointnet import float32_scores
from methods.nn.prnet import PrnetConfig, PrnetNet
from methods.nn.scan_gmr import ScanGmrConfig, ScanGmrNet
from tests.methods.clouds import tensor_pair

torch.manual_seed(0)
POINTS, OTHERS = tensor_pair()
FEATURES = torch.nn.functional.normalize(torch.randn(2, 40, 16), dim=2)
ROWS = torch.randint(0, 80, (4, 80))
LAST, EDGES = torch.nn.Linear(16, 5), [EdgeConv(3, 8, precise=precise).eval() for precise in (True, False)]
LK = LkNet(LkConfig(widths=(16, 32)))
SCANS = ScanGmrNet(ScanGmrConfig(inputs=16, width=16, points=40, components=8)).eval()
EXACT: dict[str, Callable[[], torch.Tensor]] = {
    "scores": lambda: scores_of(FEATURES, FEATURES.flip(1)),
    "pose": lambda: pose_of_matches(scores_of(FEATURES, FEATURES.flip(1)).softmax(dim=2), POINTS, OTHERS),
    "last layer": lambda: float32_scores(LAST, FEATURES),
    "first edges": lambda: EDGES[0](POINTS.flatten(0, 1), ROWS),
    "pointnetlk": lambda: LK.feature(POINTS),
    "scans": lambda: SCANS.estimate((FEATURES, FEATURES.flip(1)), POINTS, OTHERS).T,
}


def under_autocast(compute: Callable[[], torch.Tensor]) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        return compute()


@pytest.mark.parametrize("name", EXACT)
def test_what_must_be_exact_does_not_depend_on_autocast(name: str) -> None:
    with torch.no_grad():
        expected = EXACT[name]()
    result = under_autocast(EXACT[name])
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result, expected, atol=1e-6, rtol=1e-5)


def test_other_products_are_in_bfloat16() -> None:
    def edges() -> torch.Tensor:
        return EDGES[1](POINTS.flatten(0, 1), ROWS)

    with torch.no_grad():
        assert 1e-5 < (under_autocast(edges).float() - edges()).abs().max() < 0.1


def test_the_temperature_of_prnet_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    net = PrnetNet(PrnetConfig(k=5, widths=(8, 12), features=16, heads=2, inner=24)).eval()
    monkeypatch.setattr(net.embedding, "forward", lambda *_: (FEATURES, FEATURES.flip(1)))
    seen: list[torch.Tensor] = []
    monkeypatch.setattr(net, "matches", lambda scores: (seen.append(scores), scores.softmax(dim=2))[1])
    prepared = torch.zeros(0), torch.zeros(0)
    with torch.no_grad():
        net.round(prepared, POINTS, OTHERS)
    under_autocast(lambda: net.round(prepared, POINTS, OTHERS)[0])
    torch.testing.assert_close(seen[0], seen[1], atol=1e-6, rtol=1e-5)
