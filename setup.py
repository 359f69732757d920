"""The files of a wheel: the library, and the scripts in a folder of their own, which the command `elmo` runs."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# The scripts and what they import; no other file of the folder, which may be a user's.
SCRIPTS = [
    "args.py",
    "classifier_flags.py",
    "convert.py",
    "dataset.py",
    "export_model.py",
    "preprocess.py",
    "run_embed.py",
    "run_eval.py",
    "run_finetune.py",
    "run_parse.py",
    "run_polysemy.py",
    "run_pretrain.py",
    "run_read.py",
    "run_tag.py",
    "script.py",
    "task_flags.py",
    "word2vec_base.py",
]


def script_files() -> list[Path]:
    return [Path(name) for name in SCRIPTS]


class Build(build_py):
    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(
                self.build_lib, ignore_errors=True
            )  # files of earlier builds would be packed, too
        super().run()
        if self.editable_mode:
            return
        for path in script_files():
            shutil.copy(path, self._target("elmo_scripts", path))
        # a package, unlike a module, can declare that its types are complete
        shutil.move(self._target("elmo.py"), self._target("elmo", "__init__.py"))
        shutil.copy("elmo_core/py.typed", self._target("elmo", "py.typed"))

    def _target(self, *parts: str | Path) -> str:
        path = Path(self.build_lib, *parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        return str(path)

    def get_source_files(self) -> list[str]:  # of a source distribution
        return [*super().get_source_files(), *map(str, script_files())]


setup(cmdclass={"build_py": Build})
