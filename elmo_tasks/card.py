"""The model card of a trained model: README.md in its folder."""

import json
from typing import TYPE_CHECKING, Any

from elmo_core.messages import join_names

if TYPE_CHECKING:
    from elmo_tasks.saved import TrainedModel

EXAMPLES = {"zh": ("我爱北京。", "哪里？"), "characters": ("我爱北京。", "哪里？")}


def model_card(model: "TrainedModel", name: str, training: Any) -> str:
    """Describe a model that has just been trained. name: of its folder. training: its training settings."""
    kind, result = model.kind, model.result
    text, question = EXAMPLES.get(model.settings.lang, ("A short text.", "Where?"))
    pair = getattr(model.settings, "pairs", False)
    call = {
        "tagger": f'spans(["{text}"])',
        "classifier": f'predict([("{text}", "{text}")])' if pair else f'predict(["{text}"])',
        "reader": f'answer("{question}", "{text}")',
    }[kind]
    lines = []
    if names := {"tagger": "labels", "classifier": "classes"}.get(kind):
        lines.append(f"{names}: {join_names(list(getattr(model, names)), 50)}")
    if model.pretrained:
        lines.append(f"ELMo: {model.pretrained.name or 'in elmo/'}")
    if model.vectors:
        lines.append("word vectors: in this folder")
    lines.append(f"examples: {', '.join(f'{n:,} {part}' for part, n in result.sizes.items())}")
    changed = json.dumps({**_changed(model.settings), **_changed(training)}, ensure_ascii=False)
    lines.append(f"settings other than the defaults: {changed}; best epoch {result.epoch}")
    scores = [(part, score.summary.strip()) for part, score in (("dev", result.dev), ("test", result.test)) if score]
    return f"""# {name}

A {kind} trained with ELMo in PaddlePaddle.

{chr(10).join(f"- {line}" for line in lines)}

| | |
|---|---|
{chr(10).join(f"| {part} | {summary} |" for part, summary in scores)}

```python
from elmo_tasks import {kind.capitalize()}

print({kind.capitalize()}("{name}").{call})
```
"""


def _changed(settings: Any) -> dict[str, Any]:
    """The settings that differ from the defaults, or were chosen from several."""
    defaults = {name: getattr(type(settings), name) for name in vars(settings)}
    return {name: value for name, value in vars(settings).items() if defaults[name] not in (value, (value,))}
