"""Constants whose docstring or comment cites a page or a command: the page, its anchor, the command and its flags exist.

A page must mention the constant or its value. A number that was chosen, tuned or calibrated must say by which command
or source, or that it is a choice.
"""

import ast
import functools
import importlib.util
import io
import re
import tokenize
from typing import NamedTuple

import pytest

from bench.cli import main
from bench.isolation.guard import ROOT

FILES = [
    file
    for name in ("bench", "common", "datasets", "methods", "performance")
    for file in sorted((ROOT / name).rglob("*.py"))
]
PAGE = re.compile(r"(docs/[\w-]+\.md)(#[\w-]+)?")
MODULE = re.compile(r"python -m ([\w.]+)([^`\n]*)")
COMMAND = re.compile(
    r"bench\.py (check|compare|data|doctor|draw|list|new|pair|problems|report|train|tune)\b([^`;,()\n]*)"
)
CHOSEN = re.compile(r"\b(chosen|tuned|calibrated|fitted|found by)\b", re.IGNORECASE)
MAY_CITE = re.compile(r"docs/|-m\b|bench\.py")
"""What the text of a file that cites has somewhere."""
SOURCE = re.compile(r"python -m|bench\.py|docs/|a choice|\bas (?:in )?(?:the|DCP|DeepGMR)|\(\w+ \d{4}\)|\w+ \d{4}\b")


class Constant(NamedTuple):
    """A constant, its value where it is a literal, and what its docstring and comments say."""

    file: str
    name: str
    values: list
    text: str


def constants(file, source):
    """The constants of a module or class body that have a docstring or a comment."""
    comments = {
        t.start[0]: t.string
        for t in tokenize.generate_tokens(io.StringIO(source).readline)
        if t.type == tokenize.COMMENT
    }
    tree = ast.parse(source)
    bodies = [tree.body, *(node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    for body in bodies:
        for node, after in zip(body, [*body[1:], None], strict=True):
            if not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names = [part.id for part in ast.walk(target) if isinstance(part, ast.Name)]
            texts = [comments.get(line, "") for line in range(node.lineno - 1, node.end_lineno + 1)]
            if (
                isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                texts.append(after.value.value)
            values = [n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)] if node.value else []
            if text := " ".join(" ".join(texts).split()):
                yield Constant(file, ", ".join(names), values, text)


@functools.cache
def constants_of(file):
    """The constants of a file."""
    return [*constants(str(file.relative_to(ROOT)), file.read_text(encoding="utf-8"))]


def citing(files):
    """The constants of files that cite a page or a command."""
    every = [c for file in files for c in constants_of(file)]
    return [c for c in every if any(pattern.search(c.text) for pattern in (PAGE, MODULE, COMMAND))]


CITING = [file for file in FILES if MAY_CITE.search(file.read_text(encoding="utf-8"))]


def anchors(text):
    """Anchors of a page's headings."""
    heads = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", head.replace("`", "").lower()).strip().replace(" ", "-") for head in heads}


def written(value):
    """The forms in which a page may write a value: plain, as a percentage, with a space between thousands."""
    forms = {str(value)}
    if isinstance(value, float):
        forms |= {f"{value:g}", f"{100 * value:g} %", f"{value:g}".removeprefix("0")}
    if isinstance(value, int):
        forms |= {f"{value:,}".replace(",", " ")}
    return forms


def faults_of(constant):
    """What a constant cites wrongly."""
    for page, anchor in PAGE.findall(constant.text):
        file = ROOT / page
        if not file.is_file():
            yield f"{page} does not exist"
            continue
        text = file.read_text(encoding="utf-8")
        if anchor and anchor[1:] not in anchors(text):
            yield f"{page} has no heading {anchor}"
        words = set(re.findall(r"[\w.]+(?: %)?", text)) | set(re.findall(r"\d+ %", text))
        values = [value for value in constant.values if value is not None]
        if not any(name in text for name in constant.name.split(", ")) and not any(written(v) & words for v in values):
            yield f"{page} mentions neither {constant.name} nor its value"
    for module, rest in MODULE.findall(constant.text):
        module = module.rstrip(".")
        spec = importlib.util.find_spec(module) if importlib.util.find_spec(module.split(".")[0]) else None
        if spec is None or spec.origin is None:
            yield f"there is no module {module}"
            continue
        code = (ROOT / spec.origin).read_text(encoding="utf-8")
        yield from (f"{module} has no flag {flag}" for flag in re.findall(r"--[\w-]+", rest) if f'"{flag}"' not in code)
        if "__main__" not in code:
            yield f"{module} is not a command"
    for name, rest in COMMAND.findall(constant.text):
        parser, flags = main._parser(train=name == "train")[0], re.findall(r"--[\w-]+", rest)
        known = parser.format_help() + subparser_help(parser, name)
        if not subparser_help(parser, name):
            yield f"bench.py has no command {name}"
        yield from (f"bench.py {name} has no flag {flag}" for flag in flags if flag not in known)


def subparser_help(parser, name):
    choices = [action.choices for action in parser._actions if isinstance(action.choices, dict)]
    return next((c[name].format_help() for c in choices if name in c), "")


@pytest.mark.parametrize("file", CITING, ids=lambda file: str(file.relative_to(ROOT)))
def test_what_the_constants_of_a_file_cite_exists(file):
    assert [f"{constant.name}: {fault}" for constant in citing([file]) for fault in faults_of(constant)] == []


def test_constants_that_were_chosen_say_by_what():
    every = [c for file in FILES for c in constants_of(file)]
    numbers = [c for c in every if any(type(value) in (int, float) for value in c.values)]
    assert [f"{c.file}: {c.name}" for c in numbers if CHOSEN.search(c.text) and not SOURCE.search(c.text)] == []


def test_constants_are_found():
    names = {c.name for c in citing(CITING)}
    assert sum(len(constants_of(file)) for file in FILES) > 100 and {"TOLERANCE", "NEAR_START"} <= names


def test_no_constant_that_cites_is_left_out():
    assert citing(FILES) == citing(CITING)


EXAMPLES = {
    "LIMIT = 0.07\n'''Chosen, see docs/metrics.md.'''": [],
    "LIMIT = 0.123\n'''Chosen, see docs/metrics.md.'''": ["docs/metrics.md mentions neither LIMIT nor its value"],
    "LIMIT = 0.07  # see docs/none.md": ["docs/none.md does not exist"],
    "LIMIT = 0.07  # see docs/metrics.md#intervals": [],
    "LIMIT = 0.07  # see docs/metrics.md#nowhere": ["docs/metrics.md has no heading #nowhere"],
    "# by `python -m performance.fit_tolerance 3`\nLIMIT = 1": [],
    "# by `python -m performance.nothing`\nLIMIT = 1": ["there is no module performance.nothing"],
    "# by `python -m performance.mutants --sample 3`\nLIMIT = 1": [],
    "# by `python -m performance.mutants --none`\nLIMIT = 1": ["performance.mutants has no flag --none"],
    "# by `python -m common.errors`\nLIMIT = 1": ["common.errors is not a command"],
    "class A:\n    LIMIT = 1\n    '''By `bench.py report NAME --no-as-good`.'''": [],
    "LIMIT = 1\n'''By `bench.py report NAME --as-bad`.'''": ["bench.py report has no flag --as-bad"],
}


@pytest.mark.parametrize("source", EXAMPLES)
def test_wrong_citations_are_found(source):
    (constant,) = constants("example.py", source)
    assert list(faults_of(constant)) == EXAMPLES[source]
