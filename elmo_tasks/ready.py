"""Ready-made models by name: models/TASK/NAME, folders as `Task.save` writes them, which name their ELMo."""

from pathlib import Path

MODELS = Path(__file__).with_name("models")


def ready_made(task: str = "*") -> list[Path]:
    """Return the folders of a task's ready-made models; by default, of all."""
    return sorted(config.parent for config in MODELS.glob(f"{task}/*/config.json"))


def ready_made_named(name: str) -> list[Path]:
    """Return the folders of the ready-made models with a name, which may be of several tasks; or with TASK/NAME."""
    return [path for path in ready_made() if name in (path.name, f"{path.parent.name}/{path.name}")]
