"""Parser of the names in `--methods`, `--datasets` and `--conditions`: `name`, `name[key=value, …]`; `a+b` is a chain."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from common.errors import InputError, unknown

T = TypeVar("T")
_NAME = r"[A-Za-z_][\w\-./]*"
_FORM = re.compile(rf"^({_NAME})(?:\[(.*)\])?$")


def split_outside(text: str, separators: str) -> list[str]:
    """Split at separator characters outside brackets; empty parts are dropped.

    Args:
        text: the text to split.
        separators: characters to split at.

    Raises:
        InputError: an opening or closing bracket is missing.

    >>> split_outside("fgr+icp[trim=.3,steps=4]", "+,")
    ['fgr', 'icp[trim=.3,steps=4]']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter in separators and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth != 0:
        raise InputError(f"'{text}': brackets do not match; write name[key=value]")
    return [p.strip() for p in parts if p.strip()]


def split_list(values: list[str] | str) -> list[str]:
    """Split a comma- or space-separated list, or several of them; separators inside brackets do not split.

    >>> split_list(["icp[trim=.3,steps=4],fgr", "pca"])
    ['icp[trim=.3,steps=4]', 'fgr', 'pca']
    """
    text = values if isinstance(values, str) else ",".join(values)
    return split_outside(text, ", \t\n")


def name_fault(name: str) -> str | None:
    """Return why something cannot be named so on the command line, and the fix; None if it can.

    >>> name_fault("my_icp"), name_fault("my icp")
    (None, "'my icp' cannot be a name: use letters, digits, _ - . and /, a letter first")
    """
    if re.fullmatch(_NAME, name):
        return None
    return f"{name!a} cannot be a name: use letters, digits, _ - . and /, a letter first"


@dataclass(frozen=True)
class Spec:
    """Name with its parameters as written, such as `icp[trim=.3]`."""

    name: str
    given: Mapping[str, str]


def parse(text: str) -> Spec:
    """Parse `name` or `name[key=value, key=value]`.

    Raises:
        InputError: the text has neither form, is not UTF-8, or a parameter is given twice.

    >>> parse("icp[trim=.3, steps=4]")
    Spec(name='icp', given={'trim': '.3', 'steps': '4'})
    """
    if any(
        "\ud800" <= letter <= "\udfff" for letter in text
    ):  # problem ids contain it, and the database takes only UTF-8
        raise InputError(
            f"{text!a}: has bytes that are not UTF-8; rename the file or folder, or make a symbolic link to it"
        )
    match = _FORM.match(text.strip())
    if not match:
        raise InputError(f"'{text}' is not a name or name[key=value]")
    pairs = split_outside(match[2] or "", ",;")
    if bare := [p for p in pairs if "=" not in p]:
        raise InputError(f"'{text}': '{bare[0]}' has no value; write {match[1]}[{bare[0]}=…]")
    given: dict[str, str] = {}
    for key, value in (pair.split("=", 1) for pair in pairs):
        if key.strip() in given:
            raise InputError(f"'{text}': '{key.strip()}' is given twice; leave one out")
        given[key.strip()] = value.strip()
    return Spec(match[1], given)


def instantiate(cls: type[T], spec: Spec, defaults: Mapping[str, Any], kind: str) -> T:
    """Create an instance of a dataclass from defaults and the parameters of a spec, converted to the fields' types.

    Args:
        cls: the dataclass.
        spec: name and parameters as written.
        defaults: values of fields that the spec does not give.
        kind: what the name means in error messages, such as "method".

    Raises:
        InputError: a parameter does not exist, has the wrong type, is not finite, or is out of range. A number may be infinite
            if the class attribute `may_be_infinite` names its parameter.

    >>> @dataclasses.dataclass
    ... class Icp:
    ...     trim: float = 0.2
    ...     steps: int = 30
    >>> instantiate(Icp, parse("icp[trim=.3]"), {"steps": 4}, "method")
    Icp(trim=0.3, steps=4)
    """
    hints = get_type_hints(cls)
    fields = {f.name: f.default for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    values = dict(defaults)
    infinite = getattr(cls, INFINITE, ())
    for key, text in spec.given.items():
        if key not in fields:
            raise unknown(f"parameter of {kind} {spec.name}", key, fields)
        parameter = _Parameter(f"{kind} {spec.name}", spec.name, key, values.get(key, fields[key]), key in infinite)
        values[key] = _convert(text, hints[key], parameter)
    try:
        return cls(**values)
    except ValueError as error:
        raise InputError(f"{kind} {spec.name}: {error}") from error


INFINITE = "may_be_infinite"
"""Class attribute with the names of the parameters for which `inf` has a meaning, such as no limit."""


@dataclass(frozen=True)
class _Parameter:
    """Parameter for error messages: owner, name to write, key, default, and whether it may be infinite."""

    owner: str
    name: str
    key: str
    default: Any
    may_be_infinite: bool

    def refusal(self, text: str, what: str, example: float) -> InputError:
        """Return the error of a value that is not `what`, with the default, or else `example`, as an example."""
        is_number = type(self.default) in (int, float) and math.isfinite(self.default)
        shown = f"{self.name}[{self.key}={self.default if is_number else example}]"
        return InputError(f"{self.owner}: parameter {self.key}: '{text}' is not {what}; write such as {shown}")


def _convert(text: str, hint: Any, parameter: _Parameter) -> Any:
    """Convert a text to the type of a parameter."""
    names = str(hint)
    if hint is bool or names == "bool | None":
        if text.lower() in ("true", "yes", "1", "false", "no", "0"):
            return text.lower() in ("true", "yes", "1")
        field = f"{parameter.owner}: parameter {parameter.key}"
        raise InputError(f"{field}: '{text}' is not true or false; write true or false")
    if text.lower() == "none" and "None" in names:
        return None
    if hint is int or names.startswith("int |"):
        try:
            return int(text)
        except ValueError:
            raise parameter.refusal(text, "a whole number", 10) from None
    return _number(text, parameter) if hint is float or names.startswith("float |") else text


def _number(text: str, parameter: _Parameter) -> float:
    try:
        value = float(text)
    except ValueError:
        raise parameter.refusal(text, "a number", 0.5) from None
    if math.isnan(value) or (math.isinf(value) and not parameter.may_be_infinite):
        raise parameter.refusal(text, "a finite number", 0.5)
    return value
