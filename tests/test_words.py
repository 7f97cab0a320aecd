"""Prose uses plain standard terms: the words below are refused in pages, docstrings, comments and messages.

Checked are the Markdown pages, the docstrings and comments of every Python file, and the string constants (messages, captions,
help texts) of the packages. Text in backticks is code and is not checked.
"""

import ast
import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
REFUSED = (
    *("mend", "mends", "mended", "told", "said", "asked", "stands", "owes", "so-manieth"),
    *("hands over", "handed in", "what there is", "of its own", "not asked"),
)
PACKAGES = ("bench", "common", "datasets", "methods")
GENERATED = ("results/reference/", "reports/reference/")
EXCEPTIONS: dict[str, str] = {}
"""Phrases that may contain a refused word because they are proper technical terms, each with the reason."""

_REFUSED = re.compile(r"\b(?:" + "|".join(p.replace(" ", r"\s+") for p in REFUSED) + r")\b", re.IGNORECASE)
_MAY_HAVE = re.compile("|".join(max(p.split(), key=len) for p in REFUSED), re.IGNORECASE)
"""The longest word of each of them, without which it is nowhere in a text."""
_CODE = re.compile(r"`[^`]*`")
_DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def tracked(*patterns):
    """Return the files of the checkout that match, those not yet committed included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    return sorted(
        {ROOT / name for name in listed if name and not name.startswith(GENERATED) and (ROOT / name).is_file()}
    )


def strings(tree, every):
    """Yield (line, text) of the docstrings of a syntax tree, or of every string constant."""
    if every:
        yield from (
            (n.lineno, n.value) for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)
        )
        return
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(node, _DEFINITIONS) else []:
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.value


def comments(source):
    """Yield (line, text) of the comments of a Python source; comments on consecutive lines are one text."""
    first, lines, last = 0, [], 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if lines and token.start[0] != last + 1:
            yield first, "\n".join(lines)
            lines = []
        first = first if lines else token.start[0]
        last = token.start[0]
        lines.append(token.string.lstrip("# "))
    if lines:
        yield first, "\n".join(lines)


def prose(path, root=ROOT):
    """Yield (line, text) of the prose of a file."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, source
        return
    package = path.relative_to(root).parts[0] in PACKAGES
    yield from strings(ast.parse(source), every=package)
    commented = "\n".join(line for line in source.split("\n") if "#" in line)
    if _MAY_HAVE.search(commented):  # separating comments from code takes longer than all the rest
        yield from comments(source)


def offences(path, root=ROOT):
    """Return `file:line: word` of every refused word in the prose of a file."""
    lines = []
    for first, text in prose(path, root):
        checked = _CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
        for phrase in EXCEPTIONS:
            checked = checked.replace(phrase, " " * len(phrase))
        for match in _REFUSED.finditer(checked):
            line = first + checked[: match.start()].count("\n")
            lines.append(f"{path.relative_to(root)}:{line}: {' '.join(match.group().split())}")
    return sorted(set(lines))


@pytest.mark.parametrize("path", tracked("*.md", "*.py"), ids=lambda path: str(path.relative_to(ROOT)))
def test_prose_uses_standard_terms(path):
    assert offences(path) == []


def test_refused_words_are_found_where_they_are_prose(tmp_path):
    (tmp_path / "bench").mkdir()
    file, page = tmp_path / "bench" / "a.py", tmp_path / "page.md"
    file.write_text('"""Asked."""\n\nasked = "as told"\n# in a process of\n# its own\nLIMIT = 1\n"""It\nstands."""\n')
    page.write_text("Nothing `asked`, outstanding, unsaid.\n\nHanded\nin.\n")
    assert offences(file, tmp_path) == [
        "bench/a.py:1: Asked",
        "bench/a.py:3: told",
        "bench/a.py:4: of its own",
        "bench/a.py:8: stands",
    ]
    assert offences(page, tmp_path) == ["page.md:3: Handed in"]


def test_only_docstrings_and_comments_count_outside_the_packages(tmp_path):
    (tmp_path / "tests").mkdir()
    file = tmp_path / "tests" / "a.py"
    file.write_text('"""Fine."""\n\nWORD = "asked"\n\n\ndef f():\n    """Said."""\n')
    assert offences(file, tmp_path) == ["tests/a.py:7: Said"]
