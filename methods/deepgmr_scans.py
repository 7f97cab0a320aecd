"""DeepGMR for partial scans: what its paper leaves to future work, on learned descriptors, trained on `rooms`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from common.text import counted
from methods.core.base import Cloud, Method, NoSolution, Pose, Unavailable
from methods.geometry.features import require_positive
from methods.learned.trained import Trained
from methods.learned.weights import WEIGHTS_FOLDER, sha256

if TYPE_CHECKING:
    from torch import Tensor

    from methods.nn.scan_gmr import Components, Features, ScanGmrNet

WEIGHTS = WEIGHTS_FOLDER / "deepgmr_scans_rooms.safetensors"
"""File of the weights; the command that trains them is on its card."""
LEAST_POINTS = 3
"""Points of a thinned cloud that a pose needs."""


class DeepGMRScans(Trained, Method):
    """Align Gaussian mixtures of partial scans by soft assignments with an outlier component and overlap weights.

    Points have the frozen local descriptor of `features=learned` in place of rotation-invariant features about the centroid.
    A network refines them and gives overlap weights and the scores of the outlier component. Each cloud has a mixture around the
    points of highest overlap weight, to which the points of the other are softly assigned. Sets of pairs of components that
    keep their distances are aligned in closed form, and the best pose is returned. It is for scans only.

    Parameters:
        components: number of Gaussians of each mixture.
        weights: a weight file to use in place of that of `rooms`.
    """

    kind = "learned"
    in_all = False
    requires = ("torch", "safetensors", "open3d")
    variants = {"deepgmr_scans": {}}
    trained = "deepgmr_scans"

    components: int = 384
    weights: str = ""

    def __post_init__(self) -> None:
        require_positive(self, "weights")

    @classmethod
    def network_type(cls) -> type[ScanGmrNet]:
        """See `Trained.network_type`."""
        from methods.nn.scan_gmr import ScanGmrNet

        return ScanGmrNet

    @classmethod
    def check_available(cls) -> None:
        """Raise `Unavailable`, with the training command, if there are no weights."""
        from methods.learned.descriptor import check_weights

        check_weights()
        if not WEIGHTS.is_file():
            raise Unavailable(
                f"{WEIGHTS.name} is not in {WEIGHTS.parent.name}/; train it: bench.py train {cls.trained} "
                f'--dataset "rooms[split=train]" --condition real --name {WEIGHTS.stem}'
            )

    def setup(self, device: str, seed: int, domain: str) -> None:
        """Load the weights of the network and of the descriptor; note both files."""
        import torch

        from methods.learned.descriptor import load

        file = Path(self.weights) if self.weights else WEIGHTS
        descriptor, descriptor_sha256 = load()
        with torch.random.fork_rng(devices=[]):  # building a network draws from the global generator
            self.state.update(net=self.load(file).eval(), descriptor=descriptor)
        self.note(weights=file.name, sha256=sha256(file), descriptor_sha256=descriptor_sha256)

    def register(self, source: Cloud, target: Cloud) -> Pose:
        """See `Method.register`."""
        import torch

        from methods.geometry.learned_matches import METRE
        from methods.learned.described_scans import described_pair
        from methods.nn.scan_gmr import best_of_sets
        from methods.nn.threads import single_threaded

        with torch.inference_mode(), single_threaded(1):
            with self.stage("features"):
                *described, pair = described_pair(self.state["descriptor"], source, target)
                least = min(len(cloud.points) for cloud in described)
                if least < LEAST_POINTS:
                    raise NoSolution(f"a thinned cloud has {counted(least, 'point')}; a pose needs {LEAST_POINTS}")
                points = [torch.from_numpy(cloud.points)[None] for cloud in described]
                descriptors = [torch.from_numpy(cloud.descriptors)[None] for cloud in described]
            with self.stage("network"):
                features = self.state["net"]((descriptors[0], descriptors[1]), (points[0], points[1]))
            with self.stage("solve"):
                components = self.mixtures(features, (points[0], points[1]))
                T = best_of_sets(components, self.state["net"].config.tolerance).numpy().copy()
        T[:3, 3] *= METRE
        return pair.to_original(T)

    def mixtures(self, features: tuple[Features, Features], clouds: tuple[Tensor, Tensor]) -> Components:
        """Compute the pairs of components around the points of highest overlap weight of clouds (1, N, 3) and (1, M, 3)."""
        counts = [min(self.components, cloud.shape[1]) for cloud in clouds]
        seeds = [f.overlap.topk(count).indices for f, count in zip(features, counts, strict=True)]
        components: Components = self.state["net"].components(features, clouds, (seeds[0], seeds[1]))
        return components
