"""Families of methods: which poses of different methods are independent evidence.

A family is found from the methods' metadata alone. Variants, parameters, subclasses and refinements of a method share its
errors. Local methods share their start, the identity, and controls are no evidence, so both are one family.
"""

from __future__ import annotations

from methods.core.registry import MethodSpec

START = "start"
"""Common family of the methods that do not search: those that start at the identity, and controls."""
UNSEARCHED = ("local", "control")
"""Kinds of these methods."""


def family(spec: MethodSpec) -> str:
    """Return the family of a method: `START`, or the module and name of the class that its variants share.

    Of a chain the first part counts, since the others only refine its pose. Of its class, the outermost base class counts that is
    defined in a file with a method: classes of weights or settings of one network share it, general bases do not.

    >>> from methods.core.registry import MethodRegistry
    >>> spec = MethodRegistry().spec
    >>> family(spec("fgr+icp")) == family(spec("fgr[normal_radius=0.3]")) != family(spec("ransac10k"))
    True
    >>> family(spec("icp")) == family(spec("hgmr"))
    True
    """
    return START if spec.kind in UNSEARCHED else spec.lineage
