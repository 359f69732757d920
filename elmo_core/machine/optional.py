"""Packages that only some features need."""

import importlib
from types import ModuleType

from elmo_core.machine.messages import UserError

PACKAGES = {"sklearn": "scikit-learn"}  # packages with another name than their module


def import_optional(module: str, feature: str) -> ModuleType:
    """Import a module for a feature. If its package is not installed, the error says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.partition(".")[0]
        if error.name != name:
            raise
        package = PACKAGES.get(name, name)
        raise UserError(f"{feature} needs the package {package}. Install it: pip install {package}") from error
