"""The files of a wheel: the library, and the scripts in a folder of their own, which the command `elmo` runs."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

LIBRARY = "elmo.py", "elmo_core", "elmo_tasks"


def script_files() -> list[Path]:
    """The scripts, and the modules and folders that they import."""
    modules = [path for path in Path().glob("*.py") if path.name not in (*LIBRARY, "setup.py")]
    folders = [path.parent for path in Path().glob("*/__init__.py") if path.parent.name not in LIBRARY]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return sorted([*modules, *files])


class Build(build_py):
    def run(self) -> None:
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # files of earlier builds would be packed, too
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
