"""The modules of attention_lib, all of them imported."""

import importlib
import pkgutil

import attention_lib

EVERY = [
    importlib.import_module(found.name)
    for found in pkgutil.walk_packages(attention_lib.__path__, "attention_lib.")
    if not found.name.endswith("__main__")
]
TOP = [module for module in EVERY if module.__name__.count(".") == 1]
