"""The little language of `--methods` and `--conditions`: `name`, `name[key=value, …]`, and `a+b` for a chain."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints

from common.errors import InputError, unknown

T = TypeVar("T")
_FORM = re.compile(r"^([A-Za-z_][\w\-./]*)(?:\[(.*)\])?$")


def split_outside(text: str, separators: str) -> list[str]:
    """Split at separator characters that stand outside brackets; empty parts are dropped."""
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
    """A comma- or space-separated list, or several of them; commas inside brackets do not split."""
    text = values if isinstance(values, str) else ",".join(values)
    return split_outside(text, ", \t\n")


@dataclass(frozen=True)
class Spec:
    """A name with parameters as written, such as `icp[trim=.3]`."""

    name: str
    given: Mapping[str, str]


def parse(text: str) -> Spec:
    """Read `name` or `name[key=value, key=value]`."""
    match = _FORM.match(text.strip())
    if not match:
        raise InputError(f"'{text}' is not a name or name[key=value]")
    pairs = split_outside(match[2] or "", ",;")
    wrong = [p for p in pairs if "=" not in p]
    if wrong:
        raise InputError(f"'{text}': '{wrong[0]}' has no value; write {match[1]}[{wrong[0]}=…]")
    return Spec(match[1], {k.strip(): v.strip() for k, v in (p.split("=", 1) for p in pairs)})


def build(cls: type[T], spec: Spec, defaults: Mapping[str, Any], what: str) -> T:
    """An instance of a dataclass from defaults and the parameters written in a spec, converted to the fields' types."""
    hints = get_type_hints(cls)
    fields = {f.name for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    values = dict(defaults)
    for key, text in spec.given.items():
        if key not in fields:
            raise unknown(f"parameter of {what} {spec.name}", key, fields)
        values[key] = _convert(text, hints[key], f"{what} {spec.name}: parameter {key}")
    try:
        return cls(**values)
    except ValueError as error:
        raise InputError(f"{what} {spec.name}: {error}") from error


def _convert(text: str, kind: Any, place: str) -> Any:
    names = str(kind)
    if kind is bool or names == "bool | None":
        if text.lower() in ("true", "yes", "1", "false", "no", "0"):
            return text.lower() in ("true", "yes", "1")
        raise InputError(f"{place}: '{text}' is not true or false")
    if text.lower() == "none" and "None" in names:
        return None
    for number in (int, float):
        if kind is number or names.startswith(number.__name__ + " |"):
            try:
                return number(text)
            except ValueError:
                raise InputError(f"{place}: '{text}' is not of type {number.__name__}") from None
    return text
