"""Trees of Gaussian mixtures and registration by them (Eckart et al., ECCV 2018), in torch; float64 throughout.

A point is represented by its monomials (1, x, y, z, xx, xy, xz, yy, yz, zz). The logarithm of a weighted Gaussian is a linear
function of these, so a level of the tree is a matrix, and the sums that EM needs are weighted sums of the same ten numbers.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from methods.core.base import NoSolution

BRANCH = 8
"""Children of a node."""
_ROWS, _COLUMNS = [0, 0, 0, 1, 1, 2], [0, 1, 2, 1, 2, 2]
_TWICE = [1.0, 2.0, 2.0, 1.0, 2.0, 1.0]
_SYMMETRIC = [[0, 1, 2], [1, 3, 4], [2, 4, 5]]
_DENSE = 64
"""Number of components up to which evaluating all of a level is faster than gathering those of each point's node."""
BLURRED_STEP = 0.1
"""Step, relative to the blur, below which the blur is halved."""
LEAST_SHARE = 1e-3
"""Minimum share of the source's points on the tree for a pose."""
_EMPTY = 1e-9
"""Number of points below which a component is empty."""


class Level(NamedTuple):
    """One level of a tree: K = 8^depth components, each a Gaussian; the children of node j are the next level's 8 j … 8 j + 7.

    Attributes:
        log_weight: log weight among the 8 siblings (K,); -inf for an empty component.
        mean: (K, 3).
        variance: along the axes (K, 3), ascending.
        axes: columns (K, 3, 3).
        open: whether the component has children (K,).
    """

    log_weight: Tensor
    mean: Tensor
    variance: Tensor
    axes: Tensor
    open: Tensor

    def coefficients(self, blur: float = 0.0) -> Tensor:
        """Return the log weighted densities (K, 10) as linear functions of the monomials, with `blur`² added to all variances."""
        variance = self.variance + blur**2
        precision = (self.axes / variance[:, None, :]) @ self.axes.transpose(1, 2)
        linear = (precision @ self.mean[:, :, None])[..., 0]
        volume = variance.log().sum(dim=1) + 3 * math.log(2 * math.pi)
        constant = self.log_weight - 0.5 * (volume + (linear * self.mean).sum(dim=1))
        quadratic = precision[:, _ROWS, _COLUMNS] * precision.new_tensor(_TWICE)
        return torch.cat([constant[:, None], linear, -0.5 * quadratic], dim=1)

    def complexity(self) -> Tensor:
        """Return the smallest variance relative to the sum of the three (K,): 0 for a plane, 1/3 for a ball."""
        return self.variance[:, 0] / self.variance.sum(dim=1)


def monomials(points: Tensor) -> Tensor:
    """Compute the monomials (N, 10) of points (N, 3)."""
    return torch.cat([torch.ones_like(points[:, :1]), points, points[:, _ROWS] * points[:, _COLUMNS]], dim=1)


def log_densities(coefficients: Tensor, terms: Tensor, node: Tensor) -> Tensor:
    """Compute the log weighted densities (N, 8) of the children of each point's node.

    Args:
        coefficients: of the children's level (8 P, 10).
        terms: monomials of the points (N, 10).
        node: of each point in the level above (N,), below P.
    """
    if len(coefficients) <= _DENSE:
        every = (terms @ coefficients.T).view(len(terms), -1, BRANCH)
        return every[torch.arange(len(terms)), node]
    return torch.bmm(coefficients.view(-1, BRANCH, 10)[node], terms[:, :, None])[..., 0]


def shares(log_density: Tensor) -> tuple[Tensor, Tensor]:
    """E step: compute each point's shares (N, 8) and log likelihood (N,) from log weighted densities of 8 siblings (N, 8)."""
    most = log_density.amax(dim=1, keepdim=True)
    density = (log_density - most).exp()
    total = density.sum(dim=1, keepdim=True)
    return density / total, (most + total.log())[:, 0]


def moments(share: Tensor, terms: Tensor, node: Tensor, nodes: int) -> Tensor:
    """Sum the monomials (N, 10), weighted by shares (N, 8) in the children of each point's node (N,): (8 nodes, 10)."""
    sums = terms.new_zeros(nodes, BRANCH * 10)
    sums.index_add_(0, node, (share[:, :, None] * terms[:, None, :]).flatten(1))
    return sums.view(-1, 10)


def maximise(sums: Tensor, floor: float) -> Level:
    """M step: compute the components of moments (K, 10), none open.

    Variances below `floor` are raised to it. This maximises the likelihood under the bound (the axes are unchanged), so EM
    never decreases the likelihood.
    """
    mass = sums[:, 0]
    average = sums / mass.clamp_min(_EMPTY)[:, None]
    mean = average[:, 1:4]
    scatter = average[:, 4:][:, _SYMMETRIC] - mean[:, :, None] * mean[:, None, :]
    variance, axes = torch.linalg.eigh(scatter)
    siblings = mass.view(-1, BRANCH)
    weight = siblings / siblings.sum(dim=1, keepdim=True).clamp_min(_EMPTY)
    log_weight = torch.where(siblings > _EMPTY, weight, 0).log().flatten()
    return Level(log_weight, mean, variance.clamp_min(floor), axes, torch.zeros_like(mass, dtype=torch.bool))


def seeds(points: Tensor, node: Tensor, nodes: int) -> Tensor:
    """Return the index (N,) of the seed, among the 8 of its node, that is nearest to each point.

    Seeds are points: first the farthest from the node's centroid, then each the farthest from the previous ones. They depend
    on no random number and no axis: they rotate with the points.
    """
    rows = torch.arange(len(points))
    count = torch.bincount(node, minlength=nodes)
    centre = points.new_zeros(nodes, 3).index_add_(0, node, points) / count.clamp_min(1)[:, None]
    far = (points - centre[node]).square().sum(dim=1)
    nearest, best = torch.zeros_like(node), torch.full_like(far, torch.inf)
    for child in range(BRANCH):
        peak = far.new_zeros(nodes).scatter_reduce_(0, node, far, "amax")
        at_peak = torch.where(far >= peak[node], rows, len(rows) - 1)
        seed = torch.full_like(count, len(rows) - 1).scatter_reduce_(0, node, at_peak, "amin")
        distance = (points - points[seed[node]]).square().sum(dim=1)
        nearest = torch.where(distance < best, child, nearest)
        far = best = torch.minimum(best, distance)
    return nearest


class FitParameters(NamedTuple):
    """Parameters of a tree's fit.

    Attributes:
        levels: maximum number of levels.
        floor: minimum variance along an axis.
        flat: a component of at most this complexity is not split.
        least: a component of fewer points is not split.
        iterations: maximum iterations of EM in a level.
        tolerance: EM stops when the mean log likelihood increases by less.
    """

    levels: int
    floor: float
    flat: float
    least: int
    iterations: int
    tolerance: float


class Tree(NamedTuple):
    """Levels from coarse to fine, and for each the mean log likelihood after every EM iteration."""

    levels: list[Level]
    history: list[list[float]]


def fit_tree(points: Tensor, parameters: FitParameters) -> Tree:
    """Fit a tree to points (N, 3), level by level; a point passes to the children of its most likely component."""
    terms, node = monomials(points), torch.zeros(len(points), dtype=torch.long)
    tree = Tree([], [])
    while len(points) and len(tree.levels) < parameters.levels:
        nodes = BRANCH ** len(tree.levels)
        level, log_density, likelihoods = fit_level(points, terms, node, nodes, parameters)
        node = BRANCH * node + log_density.argmax(dim=1)
        count = torch.bincount(node, minlength=BRANCH * nodes)
        level = level._replace(open=(count >= parameters.least) & (level.complexity() > parameters.flat))
        stay = level.open[node]
        points, terms, node = points[stay], terms[stay], node[stay]
        tree.levels.append(level)
        tree.history.append(likelihoods)
    tree.levels[-1].open.fill_(False)
    return tree


def fit_level(
    points: Tensor, terms: Tensor, node: Tensor, nodes: int, parameters: FitParameters
) -> tuple[Level, Tensor, list[float]]:
    """Run EM in all nodes of a level at once.

    Returns:
        The level, the points' log densities (N, 8) in it, and the mean log likelihood after every iteration.
    """
    share = torch.nn.functional.one_hot(seeds(points, node, nodes), BRANCH).to(points.dtype)
    likelihoods: list[float] = []
    while True:
        level = maximise(moments(share, terms, node, nodes), parameters.floor)
        log_density = log_densities(level.coefficients(), terms, node)
        share, likelihood = shares(log_density)
        likelihoods.append(float(likelihood.mean()))
        if len(likelihoods) == parameters.iterations or (
            len(likelihoods) > 1 and likelihoods[-1] - likelihoods[-2] < parameters.tolerance
        ):
            return level, log_density, likelihoods


def descend(levels: list[Level], coefficients: list[Tensor], points: Tensor) -> tuple[Tensor, Tensor]:
    """Pass points (N, 3) down the tree greedily, each until its most likely component has no children.

    Returns:
        The bound that EM maximises for each point, as coefficients of its monomials (N, 10), up to a constant: the log
        densities of the siblings among which it stopped, averaged by its shares. And the log likelihood (N,) under these
        siblings.
    """
    terms, rows = monomials(points), torch.arange(len(points))
    node, above = torch.zeros_like(rows), torch.zeros_like(points[:, 0])
    bound, likelihood = torch.zeros_like(terms), torch.zeros_like(above)
    for level, of_level in zip(levels, coefficients, strict=True):
        log_density = log_densities(of_level, terms[rows], node)
        share, among_siblings = shares(log_density)
        bound[rows], likelihood[rows] = mixed(share, of_level, node), above + among_siblings
        likeliest = BRANCH * node + log_density.argmax(dim=1)
        on = level.open[likeliest]
        if not on.any():
            break
        rows, node, above = rows[on], likeliest[on], (above + level.log_weight[likeliest])[on]
    return bound, likelihood


def mixed(share: Tensor, coefficients: Tensor, node: Tensor) -> Tensor:
    """Average the coefficients (8 P, 10) of the children of each point's node (N,) by its shares (N, 8): (N, 10)."""
    finite = torch.where(coefficients[:, :1].isfinite(), coefficients, 0)  # -inf times a share of 0 is not a number
    if len(finite) <= _DENSE:
        every = share.new_zeros(len(share), len(finite) // BRANCH, BRANCH)
        every[torch.arange(len(share)), node] = share
        return every.flatten(1) @ finite
    return torch.bmm(share[:, None, :], finite.view(-1, BRANCH, 10)[node])[:, 0]


def newton_step(points: Tensor, bound: Tensor, damping: float) -> Tensor:
    """Compute the twist (6,) of points (N, 3) that maximises the sum of their bounds (N, 10), with linearised rotation.

    This is point-to-plane least squares with three planes per Gaussian, normal to its axes, weighted by share over variance.
    `damping` is relative to the mean curvature.
    """
    precision = (bound[:, 4:] * bound.new_tensor(_TWICE).reciprocal() * -2)[:, _SYMMETRIC]
    pull = bound[:, 1:4] - (precision @ points[:, :, None])[..., 0]
    J = torch.cat([-cross_matrices(points), torch.eye(3, dtype=points.dtype).expand_as(precision)], 2)
    curvature = J.reshape(-1, 6).T @ (precision @ J).reshape(-1, 6)
    curvature.diagonal().add_(damping * curvature.trace() / 6)
    return torch.linalg.solve(curvature, J.reshape(-1, 6).T @ pull.flatten())


def cross_matrices(v: Tensor) -> Tensor:
    """Return the matrices (N, 3, 3) that map w to v x w, for v (N, 3)."""
    x, y, z = v.unbind(dim=1)
    o = torch.zeros_like(x)
    return torch.stack([o, -z, y, z, o, -x, -y, x, o], dim=1).view(-1, 3, 3)


def exponential(step: Tensor) -> Tensor:
    """Return the pose (4, 4) of a rotation vector and a translation (6,)."""
    T = torch.eye(4, dtype=step.dtype)
    T[:3, :3] = torch.linalg.matrix_exp(cross_matrices(step[None, :3])[0])
    T[:3, 3] = step[3:]
    return T


class SearchParameters(NamedTuple):
    """Parameters of the search for a pose.

    Attributes:
        blur: initial standard deviation added to the tree's; halved whenever a step is small relative to it.
        floor: a blur below this becomes 0.
        outliers: density of points that belong to no component; such points have no weight.
        iterations: maximum number of iterations.
        tolerance: without blur, stop when a step rotates (radians) and translates by less.
        damping: relative to the mean curvature; without it a noisy plate, free to slide in its plane, slides far away.
    """

    blur: float
    floor: float
    outliers: float
    iterations: int
    tolerance: float
    damping: float


class Alignment(NamedTuple):
    """A pose (4, 4), the share of the points that belong to the tree, the number of iterations, and whether it converged."""

    T: Tensor
    share: float
    iterations: int
    converged: bool


def align(tree: Tree, points: Tensor, T: Tensor, parameters: SearchParameters) -> Alignment:
    """Align points (N, 3) to a tree by EM, from the pose T (4, 4).

    Raises:
        NoSolution: all points are outliers, too far from the tree.
    """
    blur, iterations, step, share = parameters.blur, 0, math.inf, 1.0
    coefficients = [level.coefficients(blur) for level in tree.levels]
    while iterations < parameters.iterations and (blur or step > parameters.tolerance):
        moved = points @ T[:3, :3].T + T[:3, 3]
        bound, likelihood = descend(tree.levels, coefficients, moved)
        inlier = inlier_probability(likelihood, parameters.outliers)
        share = float(inlier.mean())
        if share < LEAST_SHARE:
            raise NoSolution("no point of the source is near the target; start from a nearer pose")
        change = newton_step(moved, inlier[:, None] * bound, parameters.damping)
        T, iterations = exponential(change) @ T, iterations + 1
        step = float(torch.maximum(change[:3].norm(), change[3:].norm()))
        if blur and step < BLURRED_STEP * blur:
            blur = blur / 2 if blur / 2 >= parameters.floor else 0.0
            coefficients = [level.coefficients(blur) for level in tree.levels]
    return Alignment(T, share, iterations, not blur and step <= parameters.tolerance)


def inlier_probability(likelihood: Tensor, outliers: float) -> Tensor:
    """Return each point's probability (N,) of belonging to the tree instead of uniform outliers, from log likelihoods (N,)."""
    return torch.sigmoid(likelihood - math.log(outliers)) if outliers else torch.ones_like(likelihood)
