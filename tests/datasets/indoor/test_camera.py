"""The depth camera against planes and boxes whose depth is known."""

import numpy as np
import pytest

from common.keys import rng
from datasets.indoor.camera import Camera, look_at, measure, render, smooth_field
from datasets.indoor.walls import panel
from datasets.shapes.primitives import box, join

CAMERA = Camera(width=24, height=18, focal=22.0)


def test_depth_of_a_plane_is_exact():
    view = render(panel((-20, -20, 2.0), (40, 0, 0), (0, 40, 0)), np.eye(4), CAMERA)
    assert view.depth == pytest.approx(2.0)
    centre = view.cosine[8:10, 11:13]
    assert centre == pytest.approx(1.0, abs=0.01) and view.cosine.min() < 0.85


def test_tilted_plane_and_triangles_behind_the_camera():
    """A floor that passes below the camera: the depth of a ray (x, y, 1) is height / y, wherever y > 0."""
    floor = panel((-30, 1.5, -30), (60, 0, 0), (0, 0, 60))
    view = render(floor, np.eye(4), Camera(width=24, height=18, focal=22.0, far=99.0))
    y = np.broadcast_to(CAMERA.v[:, None], view.depth.shape)
    below = y > 1.5 / 25
    np.testing.assert_allclose(view.depth[below], 1.5 / y[below], rtol=1e-12)
    assert np.isinf(view.depth[y < 0]).all()


def test_the_nearer_surface_hides_the_other():
    wall = panel((-20, -20, 3.0), (40, 0, 0), (0, 40, 0))
    view = render(join(wall, box((-0.3, 0.3), (-0.3, 0.3), (1.0, 1.4))), np.eye(4), CAMERA)
    assert set(np.unique(view.depth.round(9))) == {1.0, 3.0}
    inside = (np.abs(CAMERA.rays[..., 0]) < 0.3) & (np.abs(CAMERA.rays[..., 1]) < 0.3)
    np.testing.assert_array_equal(view.depth < 2, inside)


def test_neighbouring_triangles_leave_no_gap():
    draw = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(np.linspace(-4, 4, 9), np.linspace(-4, 4, 9)), axis=2)
    heights = 3 + 0.4 * draw.random((9, 9, 1))
    from datasets.shapes.primitives import sheet

    view = render(sheet(np.concatenate([grid, heights], axis=2)), np.eye(4), CAMERA)
    assert np.isfinite(view.depth).all()


def test_look_at_is_a_rotation_with_y_down():
    pose = look_at(np.array([1.0, 2, 1.5]), np.array([3.0, 2, 1.5]), np.array([0.0, 0, 1]))
    np.testing.assert_allclose(pose[:3, :3].T @ pose[:3, :3], np.eye(3), atol=1e-12)
    assert np.linalg.det(pose[:3, :3]) == pytest.approx(1)
    np.testing.assert_allclose(pose[:3, 2], [1, 0, 0])
    np.testing.assert_allclose(pose[:3, 1], [0, 0, -1])


@pytest.mark.parametrize("depth", [0.8, 3.0])
def test_noise_grows_with_the_depth_as_stated(depth):
    camera = Camera(width=64, height=48, focal=80.0, levels=1e6)
    view = render(panel((-20, -20, depth), (40, 0, 0), (0, 40, 0)), np.eye(4), camera)
    image = measure(view, camera, np.zeros(view.depth.shape), rng("noise"))
    expected = 0.0012 + 0.0019 * (depth - 0.4) ** 2
    assert image[image > 0].std() == pytest.approx(expected, rel=0.1)
    assert 0.9 < (image > 0).mean() < 1


def test_depths_are_levels_of_disparity_within_range():
    view = render(panel((-20, -20, 0.2), (40, 0, 0), (0, 30, 6.0)), np.eye(4), CAMERA)
    image = measure(view, CAMERA, np.zeros(view.depth.shape), rng("levels"))
    z = image[image > 0]
    np.testing.assert_allclose(CAMERA.levels / z, np.rint(CAMERA.levels / z), atol=1e-9)
    assert z.min() >= CAMERA.near and z.max() <= CAMERA.far


def test_edges_and_grazing_surfaces_are_dropped():
    camera = Camera(width=64, height=48, focal=60.0)
    flat = panel((-20, -20, 2.0), (40, 0, 0), (0, 40, 0))
    slanted = panel((-20, -0.02, 0.5), (40, 0, 0), (0, 0.1, 6.0))
    missing = [
        (measure(render(mesh, np.eye(4), camera), camera, np.zeros((48, 64)), rng("d")) == 0)
        for mesh in (flat, slanted)
    ]
    seen = np.isfinite(render(slanted, np.eye(4), camera).depth)
    assert missing[0].mean() < 0.05 and missing[1][seen].mean() > 0.9


def test_smooth_field_varies_slowly():
    field = smooth_field(rng("field"), Camera())
    assert field.shape == (96, 128) and 0.3 < field.std() < 1.5
    assert np.abs(np.diff(field, axis=1)).max() < 0.3
