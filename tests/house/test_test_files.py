"""Each module has a test file of its name, in any folder of tests/."""

from collections import Counter
from pathlib import Path

from project import PROJECT

FOLDERS = [path.parent for path in PROJECT.glob("*/__init__.py")]
MODULES = [*PROJECT.glob("*.py"), *(path for folder in FOLDERS for path in folder.rglob("*.py"))]
TESTS = {path.stem for path in (PROJECT / "tests").rglob("test_*.py")}
# Without a test file of their name: other files test them. This list may only become shorter.
WITHOUT = {
    "args.py",
    "classifier_flags.py",
    "elmo_tasks/settings.py",
    "elmo_tasks/tagging/network.py",
    "elmo_tools/export/examples/model_io.py",
    "elmo_tools/export/examples/predict_classifier.py",
    "elmo_tools/export/examples/predict_elmo.py",
    "elmo_tools/export/examples/predict_parser.py",
    "elmo_tools/export/examples/predict_tagger.py",
    "elmo_tools/export/examples/run_onnx.py",
    "elmo_tools/export/examples/run_paddle.py",
    "elmo_tools/export/onnx_graph.py",
    "elmo_tools/export/paddle_graph.py",
    "elmo_tools/export/trained_layers.py",
    "elmo_tools/export/sentences.py",
    "run_embed.py",
    "task_flags.py",
}


def expected_names(modules: list[Path]) -> dict[str, str]:
    """The name of each module's test file: test_MODULE, or test_FOLDER_MODULE where several modules
    have the name.
    """
    count = Counter(path.stem for path in modules)
    names = {}
    for path in modules:
        is_only_one = count[path.stem] == 1
        names[path.relative_to(PROJECT).as_posix()] = (
            f"test_{path.stem}" if is_only_one else f"test_{path.parent.name}_{path.stem}"
        )
    return names


def test_each_module_has_a_test_file_of_its_name():
    names = expected_names([path for path in MODULES if path.name != "__init__.py"])
    missing = {module for module, test in names.items() if test not in TESTS}
    assert missing <= WITHOUT, "tests/ has no test file of the name of these modules"
    assert missing >= WITHOUT, "these modules have a test file: take them off the list"
