"""Which files a file is made of."""

from common.imports import made_of
from methods import registry


def written(folder, **texts):
    for name, text in texts.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def test_imports_are_followed_wherever_they_stand(tmp_path):
    root = written(
        tmp_path,
        a="import b\nfrom pack import inner as x\nimport numpy as np\n",
        b="def late():\n    from c import f\n    return f\n",
        c="import a\nSOURCE = 'code.cc'\n",  # a circle
        pack__inner="",
        unrelated="import a\n",
    )
    (root / "pack" / "__init__.py").write_text("import gone\n")
    (root / "native").mkdir()
    (root / "native" / "code.cc").write_text("int x;")
    (root / "native" / "other.cc").write_text("int y;")
    found = {str(f.relative_to(root)) for f in made_of(root / "a.py", [root])}
    assert found == {"a.py", "b.py", "c.py", "pack/__init__.py", "pack/inner.py", "native/code.cc"}


def test_text_is_never_run(tmp_path):
    root = written(tmp_path, a="import b\n", b="raise SystemExit\n")
    assert made_of(root / "a.py", [root]) == {root / "a.py", root / "b.py"}


def test_a_method_is_made_of_what_it_imports_of_the_package():
    def names(method):
        return {file.partition("/methods/")[2] for file in registry.code_of(method)}

    assert {"deepgmr.py", "base.py", "nn/gmr.py", "nn/rri.py", "native/rri.cc"} <= names("deepgmr")
    assert {"fgr.py", "_features.py", "icp.py", "_icp.py"} <= names("fgr+icp")
    assert not {"deepgmr.py", "icp.py", "nn/gmr.py"} & names("fgr")
    assert all(names("deepgmr")) and "" not in names("fgr+icp")
