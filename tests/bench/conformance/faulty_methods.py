"""Methods with one fault each, and what the check that detects it reports."""

FAULTY = '''
import contextlib, os, time
import numpy as np
from methods.base import Method, NoSolution, rigid

class Faulty(Method):
    """Centroids, with a fault."""
    variants = {f"faulty_{h}": {"how": h} for h in HOWS}
    how: str = ""

    def register(self, source, target):
        how = self.how
        if min(len(source), len(target)) < 3 or not np.isfinite(source).all() or not np.isfinite(target).all():
            if how == "raises":
                raise IndexError("index 3 is out of bounds")
            if how == "exits":
                os._exit(4)
            raise NoSolution("" if how == "silent" else "no")
        if how == "endless":
            time.sleep(3600)
        if how == "mutates":
            source -= source.mean(0)
        if how == "clock":
            self.state["calls"] = self.state.get("calls", 0) + 1
        shift = target.mean(0, dtype=float) - source.mean(0, dtype=float)
        if how == "lottery":
            shift = shift + 1e-9 * self.rng.random(3)
        if how == "clock":
            shift = shift + 1e-9 * self.state["calls"]
        if how == "double" and source.dtype != np.float32:
            shift = shift + 1
        T = rigid(np.eye(3), shift)
        if how == "stages":
            with contextlib.ExitStack() as inside:
                for depth in range(50):  # 50 times the duration, more than any pause of a busy machine outside them
                    inside.enter_context(self.stage(f"stage {depth}"))
                time.sleep(0.02)
        if how == "index":
            a, b = source - source.mean(0), target - target.mean(0)
            n = min(len(a), len(b))
            U, _, Vt = np.linalg.svd(a[:n].T @ b[:n])
            R = Vt.T @ np.diag([1, 1, np.linalg.det(Vt.T @ U.T)]) @ U.T
            T = rigid(R, target.mean(0) - R @ source.mean(0))
        return {"backwards": np.linalg.inv(T), "scaled": 2 * T, "wild": rigid(-np.eye(3)[[1, 0, 2]], shift)}.get(how, T)

class NoDoc(Method):
    variants = {"faulty_nodoc": {}}
    kind = "best"

class Stubborn(Method):
    """Says it refines, and does not."""
    variants = {"faulty_noinit": {}}
    local = True
    register = Faulty.register
    how: str = ""
'''


EXPECTED = {
    "raises": ("degenerate clouds", "source empty: IndexError: index 3 is out of bounds; fix it, or raise NoSolution"),
    "silent": ("degenerate clouds", "NoSolution has no text"),
    "mutates": ("input unchanged", "register changes the source; work on a copy"),
    "clock": ("determinism", "two calls with the same seed differ; draw from self.rng"),
    "lottery": ("determinism", "depends on the seed; set random = True"),
    "double": ("dtype and layout", "float64 with the same values give another pose"),
    "stages": ("stage times", "one lies inside another"),
    "index": ("point order", "not by their index"),
    "backwards": ("known poses", "maps the target into the source; return its inverse"),
    "scaled": ("rigid output", "not rigid: its last row is 0 0 0 2, not 0 0 0 1; return T_target_source (4, 4)"),
    "wild": ("known poses", "no better than the identity"),
    "nodoc": ("docstring and kind", "NoDoc has no docstring: write one sentence"),
    "noinit": ("initial pose", "register does not accept init"),
}
