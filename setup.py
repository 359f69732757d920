"""What pyproject.toml cannot say about a build."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class Build(build_py):
    def run(self) -> None:
        if self.editable_mode:
            super().run()
            return
        # Files of earlier builds would be packed, too.
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        # elmo.py becomes a package, which unlike a module can declare that its types are complete.
        package = Path(self.build_lib, "elmo")
        package.mkdir()
        Path(self.build_lib, "elmo.py").rename(package / "__init__.py")
        Path(package, "py.typed").touch()


setup(cmdclass={"build_py": Build})
