import numpy as np
import pytest

from common.errors import InputError
from common.keys import rng
from datasets.base import MeshShape, NotEnoughPoints, PointShape
from datasets.conditions import condition
from datasets.poses import haar, move
from datasets.visibility import overlap, visible_on_grid, visible_points


def pose(key):
    T = np.eye(4)
    T[:3, :3] = haar(rng("pose", key))
    T[:3, 3] = rng("shift", key).uniform(-0.2, 0.2, 3)
    return T


def sphere(n, key=0):
    v = rng("sphere", key).standard_normal((n, 3))
    return 0.8 * v / np.linalg.norm(v, axis=1, keepdims=True)


def tetrahedron():
    v = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / 3**0.5
    return MeshShape("t", "c", v[[[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]], "C1")


def test_the_grid_keeps_the_nearest_point_of_each_cell_and_drops_what_is_outside():
    cloud = rng("grid").uniform(-1.1, 1.1, (30_000, 3))
    nearest = {}
    for row, (x, y, z) in enumerate(cloud):
        cell = (np.floor((x + 1) * 100), np.floor((y + 1) * 100))
        if 0 <= cell[0] < 200 and 0 <= cell[1] < 200 and (cell not in nearest or z < cloud[nearest[cell], 2]):
            nearest[cell] = row
    assert visible_on_grid(cloud).tolist() == sorted(nearest.values())


@pytest.mark.parametrize("n", [1, 2, 40])
def test_points_alone_in_their_cells_are_all_seen_from_the_edge_on(n):
    """The grid is half open: it includes -1 and excludes 1."""
    x = -1 + 0.01 * np.arange(n)
    cloud = np.stack([x, x[::-1], rng("z").normal(size=n)], axis=1)
    assert visible_on_grid(cloud).tolist() == list(range(n))
    for axis in (0, 1):
        outside = np.zeros((3, 3))
        outside[:, axis] = -1.0000001, -1.0, 1.0
        assert visible_on_grid(outside).tolist() == [1]
    stacked = np.array([[0.5, 0.5, z] for z in (3.0, 1.0, 2.0)])
    assert visible_on_grid(stacked).tolist() == [1]


def test_hidden_point_removal_shows_the_near_half_of_a_sphere():
    cloud = sphere(2000)
    seen = np.isin(np.arange(2000), visible_points(cloud))
    assert seen[cloud[:, 2] < -0.1].mean() > 0.99 and not seen[cloud[:, 2] > 0.1].any()


def test_nothing_hides_in_a_flat_cloud():
    flat = np.c_[rng("flat").random((50, 2)), np.zeros(50)]
    assert len(visible_points(flat)) == 50
    for few in (1, 2):  # no hull: every point is visible
        assert visible_points(flat[:few]).tolist() == list(range(few))


def test_overlap_is_the_share_of_near_points():
    a, b = rng("a").random((300, 3)), rng("b").random((200, 3))
    expected = (np.linalg.norm(a[:, None] - b[None], axis=2).min(1) <= 0.08).mean()
    assert overlap(a, b, 0.08) == pytest.approx(expected)
    assert overlap(a, a) == 1 and overlap(a, a + 10) == 0


def test_partial_views_lie_on_the_surface_and_face_their_cameras():
    shape = tetrahedron()
    A, B = pose(1), pose(2)
    clouds = condition("partial[sigma=0]").make(shape, 400, A, B, rng("p"))
    assert clouds.source.shape == clouds.target.shape == (400, 3) and 0 < clouds.overlap < 1
    complete = shape.samples(40_000, 1, rng("s"))[0]
    for cloud, at in ((clouds.source, A), (clouds.target, B)):
        assert overlap(cloud, move(at, complete), 0.05) == 1
        # The camera looks along +z, so a view is nearer to it than the whole on average.
        assert cloud[:, 2].mean() < move(at, complete)[:, 2].mean() - 0.05


def test_the_same_view_overlaps_wholly():
    A = pose(3)
    assert condition("partial").make(tetrahedron(), 300, A, A, rng("q")).overlap > 0.98


def test_fixed_points_need_the_declared_substitute():
    with pytest.raises(NotEnoughPoints, match=r"partial\[visibility=hpr\]"):
        condition("partial").points_available(100, 1024)
    hpr = condition("partial[visibility=hpr,sigma=0]")
    assert hpr.points_available(1024, 1024) == hpr.points_available(512, 1024) == 512
    clouds = hpr.make(PointShape("s", "c", sphere(1024)), 300, pose(1), pose(2), rng("h"))
    assert 200 < len(clouds.source) <= 300 and 200 < len(clouds.target) <= 300
    with pytest.raises(InputError, match="grid or hpr"):
        condition("partial[visibility=xray]")


def test_outliers_replace_the_asked_share():
    clouds = condition("outliers[fraction=0.25,sigma=0]").make(tetrahedron(), 800, pose(1), pose(1), rng("o"))
    complete = move(pose(1), tetrahedron().samples(50_000, 1, rng("s"))[0])
    for cloud in (clouds.source, clouds.target):
        assert 1 - overlap(cloud, complete, 0.03) == pytest.approx(0.25, abs=0.03)
    with pytest.raises(InputError, match="fraction"):
        condition("outliers[fraction=1]")


def test_density_gives_two_sizes_without_shared_points():
    clouds = condition("density[target=100,sigma=0]").make(
        PointShape("s", "c", sphere(400)), 300, np.eye(4), np.eye(4), rng(1)
    )
    assert clouds.source.shape == (300, 3) and clouds.target.shape == (100, 3)
    assert len(np.unique(np.concatenate([clouds.source, clouds.target]), axis=0)) == 400
    given = condition("density[target=100]")
    assert (given.points_available(350, 400), given.points_available(200, 400), given.points_available(9000, None)) == (
        300,
        200,
        9000,
    )
    with pytest.raises(NotEnoughPoints, match="never repeated"):
        given.points_available(401, 400)


def test_a_plate_seen_edge_on_shows_what_it_has():
    plate = MeshShape("p", "c", np.array([[[-1, -1, 0], [1, -1, 0], [1, 1, 0]]]) / 2.0, "C1")
    edge_on = np.array([[0, 0, 1, 0], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1.0]])
    clouds = condition("partial").make(plate, 1024, edge_on, np.eye(4), rng("edge"))
    assert 50 < len(clouds.source) < 200 and len(clouds.target) == 1024
