"""Tasks on ELMo vectors: tagging/, classification/, reading/, parsing/. No command-line flags.

from elmo_tasks import Classifier, Parser, Reader, Tagger
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elmo_tasks.classification.classifier import Classifier as Classifier
    from elmo_tasks.classification.estimator import ELMoClassifier as ELMoClassifier
    from elmo_tasks.classification.settings import ClassifierSettings as ClassifierSettings
    from elmo_tasks.parsing.parser import Parser as Parser
    from elmo_tasks.parsing.settings import ParserSettings as ParserSettings
    from elmo_tasks.reading.reader import Reader as Reader
    from elmo_tasks.reading.settings import ReaderSettings as ReaderSettings
    from elmo_tasks.tagging.settings import TaggerSettings as TaggerSettings
    from elmo_tasks.tagging.tagger import Tagger as Tagger
    from elmo_tasks.vectorizer import ELMoVectorizer as ELMoVectorizer

_MODULES = {
    "Classifier": "classification.classifier",
    "ClassifierSettings": "classification.settings",
    "ELMoClassifier": "classification.estimator",
    "ELMoVectorizer": "vectorizer",
    "Parser": "parsing.parser",
    "ParserSettings": "parsing.settings",
    "Reader": "reading.reader",
    "ReaderSettings": "reading.settings",
    "Tagger": "tagging.tagger",
    "TaggerSettings": "tagging.settings",
}
__all__ = sorted(_MODULES)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str):
    """Import a class on first use: the tasks have different requirements."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
