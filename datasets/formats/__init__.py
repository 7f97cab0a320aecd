"""Readers of meshes and clouds in the common file formats, and of HDF5 files.

`read` and `read_all` start the readers in a child process with limits of time and memory (`limited`), because files come from
anywhere: a damaged header may declare any size. Every file gives a `Geometry`, with remarks on what was taken, or one line
that names the file, what is wrong with it, and the fix.
"""

from datasets.formats.geometry import Faces, Geometry
from datasets.formats.limited import read_fields
from datasets.formats.reading import READERS, Reader, read, read_all, skipped_remark, summarized, visible

__all__ = [
    "READERS",
    "Faces",
    "Geometry",
    "Reader",
    "read",
    "read_all",
    "read_fields",
    "skipped_remark",
    "summarized",
    "visible",
]
