"""Source files of a method, and their hashes."""

import hashlib
from modulefinder import ModuleFinder

import pytest

from methods.core import provenance
from methods.core.provenance import file_hashes, source_files
from tests.catalog import spec


def written(folder, texts):
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def names(files, folder):
    return {str(f.relative_to(folder)) for f in files}


def test_imports_are_followed_anywhere_in_the_code(tmp_path):
    texts = {
        "a.py": "import b\nfrom pack import inner as x\nimport numpy as np\n",
        "b.py": "def late():\n    from c import f\n    return f\n",
        "c.py": "import a\nSOURCE = 'code.cc'\n",  # a circle
        "pack/__init__.py": "import gone\n",
        "pack/inner.py": "",
        "unrelated.py": "import a\n",
        "native/code.cc": "int x;",
        "native/other.cc": "int y;",
    }
    root = written(tmp_path, texts)
    files = source_files(root / "a.py", {root: root})
    assert names(files, root) == {"a.py", "b.py", "c.py", "pack/__init__.py", "pack/inner.py", "native/code.cc"}


def test_parent_packages_and_relative_imports_count_and_other_packages_do_not(tmp_path):
    texts = {
        "mine/__init__.py": "",
        "mine/method.py": "from .helper import A\nfrom . import other\nimport mine.deep.part\nimport elsewhere\n",
        "mine/helper.py": "",
        "mine/other.py": "from numpy import array\n",
        "mine/deep/__init__.py": "from ..far import f\n",
        "mine/deep/part.py": "",
        "mine/far.py": "",
        "mine/unused.py": "",
        "elsewhere.py": "",
    }
    mine = written(tmp_path, texts) / "mine"
    files = names(source_files(mine / "method.py", {mine: tmp_path}), mine)
    assert files == {"__init__.py", "method.py", "helper.py", "other.py", "deep/__init__.py", "deep/part.py", "far.py"}


def test_syntax_errors_and_odd_strings_are_skipped(tmp_path):
    texts = {"a.py": f"import new\nWORD = '{'漢.' * 200}'\n", "new.py": "type X = = int\n", "native/x": ""}
    root = written(tmp_path, texts)
    assert names(source_files(root / "a.py", {root: root}), root) == {"a.py", "new.py"}


def test_the_code_is_never_run(tmp_path):
    root = written(tmp_path, {"a.py": "import b\n", "b.py": "raise SystemExit\n"})
    assert names(source_files(root / "a.py", {root: root}), root) == {"a.py", "b.py"}


def test_a_method_depends_on_what_it_imports_from_the_package():
    def sources(method):
        return {file.removeprefix("methods/") for file in spec(method).source_hashes()}

    assert {"deepgmr.py", "core/base.py", "nn/gmr.py", "nn/rri.py", "native/rri.cc"} <= sources("deepgmr")
    assert {"fgr.py", "geometry/features.py", "icp.py", "geometry/icp.py", "core/chain.py"} <= sources("fgr+icp")
    assert not {"deepgmr.py", "icp.py", "nn/gmr.py", "core/chain.py"} & sources("fgr")
    assert all(file.startswith("methods/") for file in spec("deepgmr+icp").source_hashes())


def test_a_plug_in_depends_on_its_folder_by_names_independent_of_the_location(tmp_path):
    lines = ["try:", "    import aid", "except ImportError:", "    pass", "from methods.base import Method", "", ""]
    method = "\n".join(
        [*lines, "class Mine(Method):", "    def register(self, source, target):", "        return aid.T", ""]
    )
    folders = [written(tmp_path / name, {"mine.py": method, "aid.py": "T = 1\n"}) for name in ("one", "two")]
    first, second = (spec("mine", folder).source_hashes() for folder in folders)
    assert first == second and {"mine.py", "aid.py", "methods/base.py"} <= first.keys()


def test_a_module_outside_packages_counts_alone_and_namespace_packages_are_skipped(tmp_path):
    texts = {
        "odd.name.py": "import numpy\nimport beside\nfrom mine import part\nfrom mine.bare import other\n",
        "beside.py": "",
        "mine/__init__.py": "",
        "mine/part.py": "",
        "mine/bare/other.py": "",
    }
    root = written(tmp_path, texts)
    assert names(source_files(root / "odd.name.py", {}), root) == {"odd.name.py"}
    files = source_files(root / "odd.name.py", {root / "mine": root})
    assert names(files, root) == {"odd.name.py", "mine/__init__.py", "mine/part.py"}


def test_files_have_the_start_of_their_sha_256_under_the_name_from_the_root_of_their_package(tmp_path):
    texts = {"mine/__init__.py": "import beside", "mine/part.py": "", "beside.py": "x = 1\n"}
    root = written(tmp_path, texts)
    found = file_hashes(root / "mine" / "__init__.py", {root / "mine": root})
    assert found == {"mine/__init__.py": hashlib.sha256(b"import beside").hexdigest()[:16]}
    alone = file_hashes(root / "beside.py", {root / "mine": root})
    assert alone == {"beside.py": hashlib.sha256(b"x = 1\n").hexdigest()[:16]}


def test_files_that_are_not_followed_are_closed(tmp_path):
    root = written(tmp_path, {"mine/a.py": "import beside, json\n", "mine/__init__.py": "", "beside.py": ""})
    finder = provenance._PackageFinder({root / "mine": root})
    opened, find = [], ModuleFinder.find_module

    def recorded(self, name, path, parent=None):
        found = find(self, name, path, parent)
        opened.append(found[0])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModuleFinder, "find_module", recorded)
        with pytest.raises(ImportError, match="beside"):
            finder.find_module("beside", None)
    assert len(opened) == 1 and opened[0].closed


def test_compiled_sources_are_those_of_the_folder_native_that_a_file_names(tmp_path):
    texts = {
        "a.py": "NAMES = 'one.cc'\nfrom native import b\n",
        "native/__init__.py": "",
        "native/b.py": "NAMES = 'two.cc'\n",
        "native/one.cc": "",
        "native/two.cc": "",
        "native/three.cc": "",
        "native/more/four.cc": "",
    }
    root = written(tmp_path, texts)
    files = names(source_files(root / "a.py", {root: root}), root)
    assert files == {"a.py", "native/__init__.py", "native/b.py", "native/one.cc", "native/two.cc"}
