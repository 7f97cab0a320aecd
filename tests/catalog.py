"""Short forms for tests: methods and data sets by their text, with an optional plug-in folder."""

from datasets.registry import DataRegistry
from methods.core.registry import MethodRegistry


def spec(text, plugins=None):
    return MethodRegistry(plugins).spec(text)


def build(text, plugins=None):
    return spec(text, plugins).build()


def open_data(text, root=None, plugins=None):
    return DataRegistry.at(root, plugins).spec(text).build()
