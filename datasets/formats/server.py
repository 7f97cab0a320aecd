"""Child process that reads files for `limited`: python -m datasets.formats.server DESCRIPTOR."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import MalformedFile
from datasets.formats.geometry import Faces, Geometry, checked

PARENT_INTERVAL_S = 0.5
"""Interval at which the child checks that its parent lives."""
GRACE_S = 5
"""Seconds after the limit at which the child ends by itself if its parent did not end it."""
Arrays = dict[str, NDArray[Any]]


def serve(pipe: Connection) -> None:
    """Answer requests until the parent closes the pipe."""
    threading.Thread(target=_watch_parent, args=(os.getppid(),), daemon=True).start()
    with contextlib.suppress(EOFError, OSError):
        while True:
            request = json.loads(pipe.recv_bytes())
            _limit(request["seconds"], request["bytes"])
            meta, arrays = _answer(request)
            signal.alarm(0)
            meta["arrays"] = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
            pipe.send_bytes(json.dumps(meta).encode())
            for array in arrays.values():
                if array.nbytes:
                    pipe.send_bytes(array.reshape(-1).view(np.uint8).data)
            del arrays


def _watch_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_INTERVAL_S)
    os._exit(1)


def _limit(seconds: float, most_bytes: int) -> None:
    """Limit the memory of this process, and end it if a request takes much longer than allowed."""
    signal.alarm(int(seconds) + GRACE_S)
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _answer(request: Mapping[str, Any]) -> tuple[dict[str, Any], Arrays]:
    """Read a file; return the reply and its arrays. A fault is the reply's `error`, and its class `kind`."""
    try:
        result = load_array(request["function"], Path(request["file"]), request["arguments"])
    except MalformedFile as error:
        return {"error": str(error), "kind": type(error).__name__}, {}
    except ImportError as error:
        return {"error": f"cannot be read without the package {error.name}; install it", "kind": "MalformedFile"}, {}
    except MemoryError:
        return {
            "error": f"needs more than {request['bytes'] / 1e9:.0f} GB of memory to read",
            "kind": "MalformedFile",
        }, {}
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it is damaged"
        return {"error": f"cannot be read ({reason})", "kind": "MalformedFile"}, {}
    except Exception:  # libraries raise any exception on damaged files
        suffix = Path(request["file"]).suffix.lower()
        return {"error": f"is damaged, or no {suffix} file", "kind": "MalformedFile"}, {}
    meta: dict[str, Any] = {}
    if isinstance(result, Geometry):
        meta = {"remarks": result.remarks, "step": result.step}
        result = packed(result)
    return meta, {name: np.asarray(array, order="C") for name, array in result.items()}


def load_array(function: str, file: Path, arguments: list[str]) -> Geometry | Arrays:
    """Call a reader, written as `module:function`, with a file; a geometry is checked."""
    module, name = function.split(":")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        result = getattr(importlib.import_module(module), name)(file, *arguments)
        return checked(result) if isinstance(result, Geometry) else result


def packed(geometry: Geometry) -> Arrays:
    """Return the arrays of a geometry by names, for the pipe."""
    arrays: Arrays = {"points": geometry.points, **{f"column {n}": v for n, v in geometry.columns.items()}}
    if geometry.faces is not None:
        arrays |= {"sizes": geometry.faces.sizes, "corners": geometry.faces.corners}
        arrays |= {f"face {name}": values for name, values in geometry.faces.columns.items()}
    return arrays


def unpacked(meta: Mapping[str, Any], arrays: Arrays) -> Geometry:
    """Return the geometry of a reply."""
    points, faces, triangles = arrays["points"], None, None
    if "sizes" in arrays:
        columns = {name[5:]: values for name, values in arrays.items() if name.startswith("face ")}
        faces = Faces(arrays["sizes"], arrays["corners"], columns)
        triangles = points[faces.triangles()]
    columns = {name[7:]: values for name, values in arrays.items() if name.startswith("column ")}
    return Geometry(points, triangles, columns, faces, tuple(meta["remarks"]), meta["step"])


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
