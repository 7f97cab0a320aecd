"""Single faults of a Python file: small edits of its code, each of a kind, in an order that depends on the code alone."""

from __future__ import annotations

import ast
import copy
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SWAPS: dict[type, list[tuple[type, str]]] = {
    ast.Lt: [(ast.Gt, "comparison direction"), (ast.LtE, "comparison boundary")],
    ast.LtE: [(ast.GtE, "comparison direction"), (ast.Lt, "comparison boundary")],
    ast.Gt: [(ast.Lt, "comparison direction"), (ast.GtE, "comparison boundary")],
    ast.GtE: [(ast.LtE, "comparison direction"), (ast.Gt, "comparison boundary")],
    ast.Eq: [(ast.NotEq, "comparison direction")],
    ast.NotEq: [(ast.Eq, "comparison direction")],
    ast.In: [(ast.NotIn, "comparison direction")],
    ast.NotIn: [(ast.In, "comparison direction")],
    ast.Add: [(ast.Sub, "arithmetic")],
    ast.Sub: [(ast.Add, "arithmetic")],
    ast.Mult: [(ast.Div, "arithmetic")],
    ast.Div: [(ast.Mult, "arithmetic")],
    ast.FloorDiv: [(ast.Mult, "arithmetic")],
    ast.BitAnd: [(ast.BitOr, "and, or")],
    ast.BitOr: [(ast.BitAnd, "and, or")],
    ast.And: [(ast.Or, "and, or")],
    ast.Or: [(ast.And, "and, or")],
}
"""Operators, what replaces them, and the kind of the fault."""
FUNCTIONS = {"min": "max", "minimum": "maximum", "mean": "median", "any": "all", "nansum": "nanmean", "floor": "ceil"}
FUNCTIONS |= {new: old for old, new in FUNCTIONS.items()}
"""Functions that replace each other."""
METHODS = {"min": "max", "max": "min", "any": "all", "all": "any", "mean": "max", "median": "mean", "sum": "mean"}
"""Methods of arrays and frames, and what replaces them."""

KEEPS_VALUE = {"float", "int", "str", "bool", "list", "tuple", "dict", "set", "map", "asarray", "ascontiguousarray"}
KEEPS_VALUE |= {"array", "astype", "cast", "iter", "TableCell", "Text"}
"""Calls that are not dropped: they convert the type of their first argument and keep its value."""
COMMUTES = {"min", "max", "minimum", "maximum", "hypot", "suppress", "rmse"}
"""Calls whose first two arguments are not swapped: the result is the same, or the call fails wherever it is reached."""
EXCLUDED_KEYWORDS = {
    "strict": "guards lengths that are equal",
    "sort": "the rows are sorted already",
    "kind": "order among equals, on which no number depends",
    "compare": "how objects of a data class compare: those of one name are equal",
    "timeout": "a duration of waiting",
    "daemon": "matters only if the process ends unexpectedly",
    "cancel_futures": "work that nobody waits for any more when a run is interrupted",
    "dtype": "a type, not a value",
    "writable": "guards the direction of a pipe",
    "readable": "guards the direction of a pipe",
    "duplex": "guards the direction of a pipe",
    **dict.fromkeys(
        "color figsize fontsize aspect pad justify "
        "labelspacing handlelength rotation linewidth markersize zorder alpha padding pad_edge width "
        "min_width ratio in_layout clip_on squeeze length top labeltop bottom labelbottom no_wrap".split(),
        "appearance: another value is not wrong",
    ),
}
"""Keyword arguments whose values are not changed, with the reason."""
EXCLUDED_NAMES = {
    **dict.fromkeys(
        "_BLOCK_ROWS _CHUNK _CLOUDS LARGE BATCH BLOCK MAX_SERIAL_FIGURES PIPE_BYTES COMMIT_INTERVAL_S FLUSH_INTERVAL_S".split(),
        "size of a unit of work: it changes speed, not results",
    ),
    **dict.fromkeys(
        "SETUP_TIMEOUT_S TAIL_BYTES TAIL_TIMEOUT_S POLL_INTERVAL_S PIPELINE_BELOW_S MAX_REJECTIONS MAX_FAILURE_ROWS".split(),
        "a bound far from what occurs: another value is not wrong",
    ),
    **dict.fromkeys("DPI NAME".split(), "appearance: another value is not wrong"),
    "search": "the range of a search for parameters: another is not wrong",
}
"""Assigned names whose values are not changed, with the reason."""
ROUNDING = 1e-9
"""Floats up to this are guards against rounding and division by zero: twice or half of one guards as well."""
EXCLUDED_CALLS = {
    "step": "a progress bar",
    "print_exc": "a message in the log",
    "isinstance": "a test of types",
    "set_title": "appearance",
    "suptitle": "appearance",
}
"""Calls that are not dropped or changed, with the reason."""


class Fault(NamedTuple):
    """A fault: its file, its kind, its line, and the bytes from `start` to `end` that `after` replaces."""

    file: str
    kind: str
    line: int
    before: str
    after: str
    start: int
    end: int

    def apply(self, source: bytes) -> bytes:
        """Return the file's content with the fault."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def faults_of(root: Path, file: str) -> list[Fault]:
    """Return every fault of a file: kinds in turn, and those of a kind in the order of their digests.

    Any first n faults are spread over the kinds, and an edit of the file hardly changes which these are.
    """
    source = (root / file).read_bytes()
    tree, lines = ast.parse(source), list(itertools.accumulate(map(len, source.splitlines(keepends=True)), initial=0))
    by_kind: defaultdict[str, dict[str, Fault]] = defaultdict(dict)
    for place, kind, node in _sites(tree):
        start = lines[place.lineno - 1] + place.col_offset
        end = lines[place.end_lineno - 1] + place.end_col_offset
        before, after = source[start:end].decode(), ast.unparse(node)
        if isinstance(node, ast.BinOp | ast.BoolOp | ast.Compare | ast.UnaryOp | ast.IfExp):
            after = f"({after})"
        if ast.unparse(place) != ast.unparse(node):
            count = sum(fault.before == before and fault.after == after for fault in by_kind[kind].values())
            key = hashlib.sha256(f"{file} {kind} {before} {after} {count}".encode()).hexdigest()
            by_kind[kind][key] = Fault(file, kind, place.lineno, before, after, start, end)
    kinds = sorted(by_kind, key=lambda kind: hashlib.sha256(f"{file} {kind}".encode()).hexdigest())
    queues = [[by_kind[kind][key] for key in sorted(by_kind[kind])] for kind in kinds]
    return [fault for turn in itertools.zip_longest(*queues) for fault in turn if fault]


def _sites(node: ast.AST) -> Iterator[tuple[Any, str, ast.AST]]:
    """Yield what is replaced, the kind of the fault, and what replaces it, for a node and everything below it."""
    if _is_excluded(node):
        return
    for kind, changed in _changes(node):
        yield node, kind, changed
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _sites(child)


def _is_excluded(node: ast.AST) -> bool:
    """Return whether nothing in a node is changed: texts, messages of errors, lines for type checkers, and the tables above."""
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Add):
        parts = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.value,)
        if any(isinstance(part, ast.List | ast.Tuple | ast.ListComp) for part in parts):
            return True  # a list: other operators than + fail at once
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'"):
        return True
    if isinstance(node, ast.keyword):
        return node.arg in EXCLUDED_KEYWORDS
    if isinstance(node, ast.IfExp) and all(_is_colour(branch) for branch in (node.body, node.orelse)):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        return bool(names & EXCLUDED_NAMES.keys())
    return isinstance(node, ast.Call) and _called(node) in EXCLUDED_CALLS


def _is_colour(node: ast.AST) -> bool:
    """Return whether a node is the text of a colour such as "#ffffff": appearance."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("#")


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the kind and the changed copy of a node, for every fault of the node itself."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for new, kind in SWAPS.get(type(node.ops[0]), []):
            if kind != "comparison boundary" or not _is_computed(node):
                yield kind, _with(node, ops=[new()])
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        for new, kind in SWAPS.get(type(node.op), []):
            yield kind, _with(node, op=new())
    elif isinstance(node, ast.UnaryOp):
        yield "sign" if isinstance(node.op, ast.USub) else "negation", node.operand
    elif isinstance(node, ast.IfExp):
        yield "swapped branches", _with(node, body=node.orelse, orelse=node.body)
    elif isinstance(node, ast.Constant):
        yield from _constants(node)
    elif isinstance(node, ast.Call):
        yield from _calls(node)
    elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) > 1:
        yield "swapped results", _with(node, value=_with(node.value, elts=_swapped(node.value.elts)))
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and len(node.targets) == 1:
        yield "swapped results", _with(node, targets=[_with(node.targets[0], elts=_swapped(node.targets[0].elts))])
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not _is_excluded(node.value):
        yield "dropped statement", ast.Pass()


def _is_computed(node: ast.Compare) -> bool:
    """Return whether a side has a product, a quotient or a float constant; then equality, which `<=` adds to `<`, is unlikely."""
    parts = list(ast.walk(node))
    products = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div | ast.Pow) for part in parts)
    return products or any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in parts)


def _constants(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    value = node.value
    if isinstance(value, bool):
        yield "flag", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant ± 1", ast.Constant(value + 1)
        if value > 1:
            yield "constant ± 1", ast.Constant(value - 1)
    elif isinstance(value, float) and abs(value) > ROUNDING:
        yield "constant × 2", ast.Constant(value * 2)
        yield "constant × 2", ast.Constant(value / 2)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Yield faults of a call: dropped, with its first arguments swapped, without one of its keywords."""
    name, plain = _called(node), not any(isinstance(a, ast.Starred) for a in node.args)
    is_method = isinstance(node.func, ast.Attribute) and isinstance(
        node.func.value, ast.Name | ast.Call | ast.Subscript
    )
    if name and name not in KEEPS_VALUE and name[0].islower() and plain and len(node.args) >= 1:
        yield "dropped call", node.args[0]
    elif name and name not in KEEPS_VALUE and is_method and not node.args:
        yield "dropped call", node.func.value  # type: ignore[attr-defined]
    of_library = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in ("np", "math")
    if new := (METHODS if of_library else FUNCTIONS).get(name):
        changed = _with(node.func, attr=new) if isinstance(node.func, ast.Attribute) else ast.Name(new)
        yield "minimum, mean, any", _with(node, func=changed)
    if plain and len(node.args) > 1 and name not in COMMUTES:
        yield "swapped arguments", _with(node, args=_swapped(node.args))
    for number, keyword in enumerate(node.keywords):
        if keyword.arg and not _is_excluded(keyword):
            rest = node.keywords[:number] + node.keywords[number + 1 :]
            yield "dropped keyword", _with(node, keywords=rest)


def _with(node: Any, **fields: Any) -> Any:
    """Return a copy of a node with other fields."""
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _swapped(parts: list[Any]) -> list[Any]:
    """Return a list with its first two items swapped."""
    return [*parts[1::-1], *parts[2:]]
