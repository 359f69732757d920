"""Ready-made models by name: models/TASK/NAME.

They are folders as `Task.save` writes them, which name their ELMo.
"""

from pathlib import Path

MODELS = Path(__file__).with_name("models")


def ready_made(task: str = "*") -> list[Path]:
    """Return the folders of a task's ready-made models; by default, of all."""
    return sorted(config.parent for config in MODELS.glob(f"{task}/*/config.json"))


def ready_made_named(name: str) -> list[Path]:
    """Return the folders of the ready-made models with a name, or with TASK/NAME.

    There may be models of several tasks with one name.
    """
    found = []
    for folder in ready_made():
        with_task = f"{folder.parent.name}/{folder.name}"
        if name in (folder.name, with_task):
            found.append(folder)
    return found
