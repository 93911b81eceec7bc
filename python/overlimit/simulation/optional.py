"""Packages that come with the extra ``notebook``, imported where they are needed."""

from __future__ import annotations

import importlib
import sys
from typing import Any

_BY_THEMSELVES = {"polars"}
"""Packages that the extra does not bring."""


def required(package: str, purpose: str) -> Any:
    """Return a module; if its package is missing, raise a ModuleNotFoundError that says how to install it."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        name = package if package.startswith("backports.") else package.partition(".")[0]
        if error.name not in (name, package, package.partition(".")[0]):
            raise
        how = (
            f"pip install {name}" if name in _BY_THEMSELVES else "pip install 'overlimit[notebook]' brings it"
        )
        raise ModuleNotFoundError(f"{purpose} needs {name}: {how}", name=name) from error


def is_installed(package: str) -> bool:
    """Tell whether a module can be imported, and import it."""
    try:
        importlib.import_module(package)
    except ModuleNotFoundError:
        return False
    return True


def loaded(package: str) -> Any:
    """Return a module that the program has imported already, or None: nobody else has objects of it."""
    return sys.modules.get(package)
