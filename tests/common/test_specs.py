from dataclasses import dataclass

import pytest

from common import specs
from common.errors import InputError, unknown
from common.keys import rng, seed_of
from datasets.conditions import condition


@dataclass(frozen=True)
class Example:
    trim: float = 0.2
    steps: int = 3
    robust: bool = False
    name: str = "plain"
    cap: int | None = 5
    limit: float | None = None
    may_be_infinite = ("limit",)


def test_a_path_that_is_not_utf_8_is_refused_with_the_fix():
    with pytest.raises(InputError, match=r"'folder\[path=sc\\udce4n\]': has bytes that are not UTF-8; rename"):
        specs.parse("folder[path=sc\udce4n]")


def test_lists_split_at_commas_and_spaces_but_not_inside_brackets():
    arguments = ["icp[trim=.3,steps=4],fgr", "a b+c"]
    assert specs.split_list(arguments) == ["icp[trim=.3,steps=4]", "fgr", "a", "b+c"]


def test_parameters_take_the_type_of_their_field():
    example = specs.instantiate(
        Example, specs.parse("x[trim=.5, steps=7, robust=yes, name=a/b, cap=none]"), {}, "method"
    )
    assert example == Example(0.5, 7, True, "a/b", None)


@dataclass(frozen=True)
class Optional:
    switch: bool | None = None
    count: int | None = None
    share: float | None = None
    whole: int = 4
    far: float = float("inf")
    word: str | None = None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((f"switch={word}", True) for word in ("true", "YES", "1")),
        *((f"switch={word}", False) for word in ("false", "No", "0")),
        ("count=7", 7), ("count=NONE", None), ("share=7", 7.0), ("share=none", None), ("whole=-3", -3), ("far=1e3", 1000.0),
        ("word=none", None), ("word=7", "7"),
    ],
)  # fmt: skip
def test_values_of_optional_parameters(text, value):
    found = getattr(specs.instantiate(Optional, specs.parse(f"x[{text}]"), {}, "method"), text.partition("=")[0])
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("count=x", "'x' is not a whole number; write such as x[count=10]"),
        ("share=x", "'x' is not a number; write such as x[share=0.5]"),
        ("whole=none", "'none' is not a whole number; write such as x[whole=4]"),
        ("far=x", "'x' is not a number; write such as x[far=0.5]"),
        ("far=inf", "'inf' is not a finite number; write such as x[far=0.5]"),
        ("switch=2", "'2' is not true or false; write true or false"),
    ],
)
def test_a_wrong_value_comes_with_an_example(text, says):
    """That of the default if it is a finite number."""
    with pytest.raises(InputError) as error:
        specs.instantiate(Optional, specs.parse(f"x[{text}]"), {}, "method")
    assert str(error.value) == f"method x: parameter {text.partition('=')[0]}: {says}"


def test_parts_inside_brackets_are_not_split():
    assert specs.split_outside("a[x=[1,2],y=3],b[],,c", ",") == ["a[x=[1,2],y=3]", "b[]", "c"]
    assert specs.split_list("a\tb\nc, d") == ["a", "b", "c", "d"]
    for wrong in ("a[", "a]", "a[[]"):
        with pytest.raises(InputError, match="brackets do not match"):
            specs.split_outside(wrong, ",")


def test_a_parameter_that_is_given_twice_is_an_error():
    with pytest.raises(InputError, match=r"'icp\[trim=\.3,trim=\.4\]': 'trim' is given twice; leave one out"):
        specs.parse("icp[trim=.3,trim=.4]")


@pytest.mark.parametrize(
    "text", ["x[trim=.3,name=a b,cap=4]", " x[ trim = .3 ; name= a b,\tcap =4 ] ", "x[trim=.3,,name=a b;cap=4;]"]
)
def test_white_space_and_empty_parts_do_not_count(text):
    spec = specs.parse(text)
    assert (spec.name, dict(spec.given)) == ("x", {"trim": ".3", "name": "a b", "cap": "4"})
    with pytest.raises(InputError, match="'trim' is given twice"):
        specs.parse("x[trim=.3, trim =.4]")
    assert specs.parse("x") == specs.parse(" x[] ") == specs.Spec("x", {})


@pytest.mark.parametrize("name", ["my icp", "icp[x]", "icp=1", "a+b", "a,b", "", "1a", "a\nb"])
def test_names_that_the_command_line_cannot_hold_have_a_fault(name):
    assert "cannot be a name" in specs.name_fault(name)


def test_defaults_of_a_variant_give_way_to_what_is_written():
    assert specs.instantiate(Example, specs.parse("x[steps=9]"), {"steps": 4, "trim": 1.0}, "method") == Example(1.0, 9)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x[trim=abc]", "method x: parameter trim: 'abc' is not a number; write such as x[trim=0.2]"),
        ("x[steps=1.5]", "method x: parameter steps: '1.5' is not a whole number; write such as x[steps="),
        ("x[trim=nan]", "method x: parameter trim: 'nan' is not a finite number; write such as x[trim=0.2]"),
        ("x[trim=-NaN]", "'-NaN' is not a finite number"),
        ("x[trim=inf]", "'inf' is not a finite number"),
        ("x[trim=1e400]", "'1e400' is not a finite number"),
        ("x[robust=maybe]", "not true or false"),
        ("x[trym=1]", "did you mean trim"),
        ("x[trim]", "has no value"),
        ("x[trim=1", "brackets do not match"),
        ("[", "brackets do not match"),
        ("a b", "not a name"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(text, says):
    with pytest.raises(InputError, match=says.replace("[", r"\[")) as error:
        specs.instantiate(Example, specs.parse(specs.split_outside(text, ",")[0]), {}, "method")
    assert "\n" not in str(error.value)


def test_only_parameters_that_say_so_may_be_infinite():
    for text, value in (("inf", float("inf")), ("none", None)):
        assert specs.instantiate(Example, specs.parse(f"x[limit={text}]"), {}, "method").limit == value
    with pytest.raises(InputError, match=r"limit: 'nan' is not a finite number; write such as x\[limit=0.5\]"):
        specs.instantiate(Example, specs.parse("x[limit=nan]"), {}, "method")
    assert condition("noisy[clip=inf]").clip == float("inf")
    with pytest.raises(InputError, match="sigma: 'inf' is not a finite number"):
        condition("noisy[sigma=inf]")


def test_unknown_names_suggest_the_nearest():
    assert "did you mean teaser" in str(unknown("method", "teazer", ["icp", "teaser", "fgr"]))
    assert "known: a, b" in str(unknown("method", "zzzz", ["b", "a"]))


def test_keys_are_stable_and_typed():
    assert seed_of("a", 1) == seed_of("a", 1) != seed_of("a", "1")
    assert rng("x", 3).random() == rng("x", 3).random() != rng("x", 4).random()
    # The same on every machine and in every version: the value itself is the contract.
    assert seed_of("modelnet40", "test", 7) == 235257336830015661
