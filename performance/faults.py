"""Single faults of a Python file: small edits of its code, each of a kind, in an order that depends on the code alone.

Edits that cannot change a result are left out by the rules below, each with its reason, and never one by one: the same value in
another form (`KEEPS_VALUE`, `COMMUTES`, factors of ±1, names of equal values), the size of a guard against rounding
(`ROUNDING`), equality of two computed floats (`_is_computed`), texts, appearance, waiting times and sizes of units of work
(`EXCLUDED_...`).
"""

from __future__ import annotations

import ast
import copy
import functools
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
KEEPS_VALUE |= {"array", "astype", "cast", "iter", "to_numpy", "tolist", "TableCell", "Text"}
"""Calls that are not dropped: they convert the type of their first argument and keep its value."""
COMMUTES = {"min", "max", "minimum", "maximum", "hypot", "suppress", "clip"}
COMMUTES |= {
    "rmse",
    "rmse_of_moments",
    "rmse_paper",
    "rmse_coordinate",
    "mean_distance",
    "rte",
    "mae_euler_deg",
    "edges_alike",
}
"""Calls whose first two arguments are not swapped: the result is the same, or the call fails wherever it is reached.

`clip(x, low, high)` is min(max(x, low), high), in which x and low have the same role. Errors are distances between two poses,
and `edges_alike` compares the shorter with the longer of two edges."""
EXCLUDED_KEYWORDS = {
    "strict": "guards lengths that are equal",
    "sort": "the rows are sorted already",
    "kind": "order among equals, on which no number depends",
    "compare": "how objects of a data class compare: those of one name are equal",
    "timeout": "a duration of waiting",
    "daemon": "matters only if the process ends unexpectedly",
    "cancel_futures": "work that nobody waits for any more when a run is interrupted",
    "dtype": "a type, not a value",
    "copy": "whether memory is shared: the values are the same",
    **dict.fromkeys(("trim_blocks", "lstrip_blocks"), "white space of a page, which no browser shows"),
    "order": "a layout in memory: it changes speed, not results",
    "help": "a text for people",
    "flush": "when a text is written, not which",
    "writable": "guards the direction of a pipe",
    "readable": "guards the direction of a pipe",
    "duplex": "guards the direction of a pipe",
    **dict.fromkeys(
        "color s figsize fontsize aspect pad justify "
        "labelspacing handlelength rotation linewidth markersize zorder alpha padding pad_edge width "
        "min_width ratio in_layout clip_on squeeze length top labeltop bottom labelbottom no_wrap shrink "
        "thickness domain xytext wide dpi ha va rotation_mode highlight metavar".split(),
        "appearance: another value is not wrong",
    ),
}
"""Keyword arguments, and keys of dictionaries of them, whose values are not changed, with the reason."""
UNITS_OF_WORK = (
    "_BLOCK_ROWS _CHUNK LARGE BATCH BLOCK BURST MAX_SERIAL_FIGURES PIPE_BYTES COMMIT_INTERVAL_S FLUSH_INTERVAL_S "
    "_TORCH_ROWS _MIN_KERNEL_ROWS _CHUNKS_PER_THREAD _LEAF_SIZE PROBLEMS_PER_COMMIT CHUNK _FEW_ROWS _REPETITIVE "
    "ROWS_AT_ONCE"
).split()
"""Constants that are the size of a unit of work."""
EXCLUDED_NAMES = {
    **dict.fromkeys(UNITS_OF_WORK, "size of a unit of work: it changes speed, not results"),
    **dict.fromkeys(
        "GRACE_S FORCED_S PATIENCE_S WATCH_INTERVAL_S PARENT_INTERVAL_S LINE_INTERVAL_S QUIET_S TERMINAL_INTERVAL_S "
        "LOG_INTERVAL_S CLOSE_TIMEOUT_S CONNECT_TIMEOUT_S LIST_TIMEOUT_S DEADLINE_S START_S".split(),
        "a duration of waiting",
    ),
    **dict.fromkeys(
        "SETUP_TIMEOUT_S TAIL_BYTES TAIL_TIMEOUT_S POLL_INTERVAL_S PIPELINE_BELOW_S BURST_BELOW_S MAX_REJECTIONS "
        "MAX_FAILURE_ROWS RADII".split(),
        "a bound far from what occurs: another value is not wrong",
    ),
    **dict.fromkeys("DPI NAME _PNG".split(), "appearance: another value is not wrong"),
    "search": "the range of a search for parameters: another is not wrong",
}
"""Assigned names whose values are not changed, with the reason."""
EXCLUDED_IN_FILES = {"bench/report/figures.py": {"height", "left", "bottom", "size"}}
"""Assigned names whose values are not changed in one file: sizes and places on paper, which are appearance."""
ROUNDING = 1e-9
"""Floats up to this are guards against rounding and division by zero: twice or half of one guards as well, and so does its
product with other numbers if one of these is changed."""
EXCLUDED_CALLS = {
    "step": "a progress bar",
    "print_exc": "a message in the log",
    "isinstance": "a test of types",
    "set_flush_denormal": "speed: it changes numbers below 1e-38 alone",
    "set_title": "appearance",
    "suptitle": "appearance",
    "add_axes": "appearance: a place on paper",
    "set_visible": "appearance",
}
"""Calls that are not dropped or changed, with the reason."""
WRITTEN_DEFAULTS = {"check=False", "allow_pickle=False", "rcond=None", "observed=True"}
"""Keywords that are not dropped: they write out the default of every function that has them."""
EXCLUDED_NUMBERS = {
    **dict.fromkeys(("wait", "sleep"), "a duration of waiting"),
    **dict.fromkeys(("read1", "pread"), "size of a unit of work"),
}
"""Calls whose constants are not changed, with the reason."""
COMPUTED = {"det", "norm", "sqrt", "hypot", "arccos", "arctan2", "log", "exp"}
"""Functions whose result is a computed float. A determinant is that of a rotation or a reflection, which is not near 0."""
PACKAGES = ("bench", "common", "datasets", "methods")
"""Packages whose constants are known by name."""


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
    names = EXCLUDED_NAMES.keys() | EXCLUDED_IN_FILES.get(file, set())
    ones = frozenset(name for name, value in _constants_of(tree) if value in (1, 1.0))
    for place, kind, node in _sites(tree, Known(frozenset(names), float_constants(root), ones, _float_fields(tree))):
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


class Known(NamedTuple):
    """Names that the rules need.

    Attributes:
        excluded: assigned names that are not changed.
        floats: constants whose value is a float.
        ones: constants of the file whose value is 1.
        fields: float fields of the file's classes.
    """

    excluded: frozenset[str]
    floats: frozenset[str]
    ones: frozenset[str]
    fields: frozenset[str]


@functools.cache
def float_constants(root: Path) -> frozenset[str]:
    """Return the names in capitals that modules of `PACKAGES` assign a float."""
    files = (file for package in PACKAGES for file in (root / package).rglob("*.py"))
    constants = (constant for file in files for constant in _constants_of(ast.parse(file.read_bytes())))
    return frozenset(name for name, value in constants if isinstance(value, float))


def _constants_of(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the literals that a module assigns to names in capitals."""
    for node in (node for node in tree.body if isinstance(node, ast.Assign)):
        target, value = node.targets[0], node.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = list(zip(target.elts, value.elts, strict=False))
        for name, literal in pairs:
            if isinstance(name, ast.Name) and name.id.isupper() and isinstance(literal, ast.Constant):
                yield name.id, literal.value


def _float_fields(tree: ast.Module) -> frozenset[str]:
    """Return the names that classes of a module annotate as float."""
    nodes = (node for body in ast.walk(tree) if isinstance(body, ast.ClassDef) for node in body.body)
    return frozenset(
        node.target.id
        for node in nodes
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and ast.unparse(node.annotation) == "float"
    )


def _sites(node: ast.AST, known: Known) -> Iterator[tuple[Any, str, ast.AST]]:
    """Yield what is replaced, the kind of the fault, and what replaces it, for a node and everything below it."""
    if _is_excluded(node, known):
        return
    for kind, changed in _changes(node, known):
        yield node, kind, changed
    for child in _children(node):
        yield from _sites(child, known)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a node in which something may be changed."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and key.value in EXCLUDED_KEYWORDS):
                yield from (part for part in (key, value) if part is not None)
        return
    fixed = isinstance(node, ast.Call) and _called(node) in EXCLUDED_NUMBERS
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not (fixed and isinstance(child, ast.Constant | ast.BinOp)):
                yield child


def _is_excluded(node: ast.AST, known: Known) -> bool:
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
        if names & known.excluded:
            return True
        return all(name.islower() for name in names) and node.value is not None and _is_unit_of_work(node.value)
    if isinstance(node, ast.BinOp) and _is_guard(node):
        return True
    return isinstance(node, ast.Call) and _called(node) in EXCLUDED_CALLS


def _is_unit_of_work(node: ast.AST) -> bool:
    """Return whether an expression is a share or multiple of a constant in `UNITS_OF_WORK`: a size of a unit of work, too."""
    parts = list(ast.walk(node))
    scales = all(
        _called(part) in ("min", "max", "max_threads", "len")
        if isinstance(part, ast.Call)
        else not isinstance(part, ast.Compare | ast.Add | ast.Sub)
        for part in parts
    )
    return scales and bool({part.id for part in parts if isinstance(part, ast.Name)} & set(UNITS_OF_WORK))


def _is_guard(node: ast.AST) -> bool:
    """Return whether a node is a product with a factor up to `ROUNDING`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _is_guard(node.left) or _is_guard(node.right)
    return isinstance(node, ast.Constant) and isinstance(node.value, float) and abs(node.value) <= ROUNDING


def _is_sign(node: ast.AST, known: Known) -> bool:
    """Return whether a node is 1, -1, the sign of a number, or a choice of these: dividing by it is multiplying by it."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return _is_sign(node.operand, known)
    if isinstance(node, ast.IfExp):
        return _is_sign(node.body, known) and _is_sign(node.orelse, known)
    if isinstance(node, ast.Call):
        chosen = node.args[1:] if _called(node) == "where" else []
        return _called(node) == "sign" or (len(chosen) == 2 and all(_is_sign(part, known) for part in chosen))
    if isinstance(node, ast.Name):
        return node.id in known.ones
    return isinstance(node, ast.Constant) and node.value in (1, 1.0)


def _is_colour(node: ast.AST) -> bool:
    """Return whether a node is the text of a colour such as "#ffffff": appearance."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("#")


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _changes(node: ast.AST, known: Known) -> Iterator[tuple[str, ast.AST]]:
    """Yield the kind and the changed copy of a node, for every fault of the node itself."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for new, kind in SWAPS.get(type(node.ops[0]), []):
            if kind != "comparison boundary" or not _is_computed(node, known):
                yield kind, _with(node, ops=[new()])
    elif isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign):
        second = getattr(node, "right", getattr(node, "value", node))
        if not (isinstance(node.op, ast.Mult | ast.Div) and _is_sign(second, known)):
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
        if not _gives_equal_values(node.value):
            yield "swapped results", _with(node, targets=[_with(node.targets[0], elts=_swapped(node.targets[0].elts))])
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _called(node.value) not in EXCLUDED_CALLS:
        yield "dropped statement", ast.Pass()


def _gives_equal_values(node: ast.AST) -> bool:
    """Return whether the first two values of a tuple are the same expression without a call: their names may be swapped."""
    if not isinstance(node, ast.Tuple) or any(isinstance(part, ast.Call) for part in ast.walk(node)):
        return False
    return len({ast.unparse(value) for value in node.elts[:2]}) == 1


def _is_computed(node: ast.Compare, known: Known) -> bool:
    """Return whether equality, which `<=` adds to `<`, is unlikely.

    It is if a side has a product, a quotient, a float constant, a determinant or a norm, or if a computed value is compared with
    a tolerance or a float field.
    """
    sides = node.left, node.comparators[0]
    fields = any(isinstance(side, ast.Attribute) and side.attr in known.fields for side in sides)
    if fields and not any(isinstance(side, ast.Constant) for side in sides):
        return True
    parts = list(ast.walk(node))
    products = any(isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult | ast.Div | ast.Pow) for part in parts)
    named = {getattr(part, "id", getattr(part, "attr", "")) for part in parts}
    return (
        products
        or any(isinstance(part, ast.Call) and _called(part) in COMPUTED for part in parts)
        or bool(named & (known.floats | {"tolerance"}))
        or any(isinstance(part, ast.Constant) and isinstance(part.value, float) for part in parts)
    )


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
        if keyword.arg and keyword.arg not in EXCLUDED_KEYWORDS and ast.unparse(keyword) not in WRITTEN_DEFAULTS:
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
