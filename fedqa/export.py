# SPDX-License-Identifier: Apache-2.0
"""A silo's best model as a Hugging Face folder: encoder, tokenizer, head and a model card.

The folder holds the plain encoder, so that any tool can load it; patches stand in a file of their own, because a tool
that does not know them would leave them out without a word.
"""

import json
from pathlib import Path
from typing import Any

from torch import nn

from fedqa import __version__
from fedqa.errors import RunError
from fedqa.evaluation.words import metric_name, number
from fedqa.federation.run_folder import RunFolder
from fedqa.federation.silo import Silo
from fedqa.files import write_tensors, write_text
from fedqa.models.backbones import Backbone
from fedqa.models.head import HEAD
from fedqa.models.matcher import Matcher
from fedqa.models.patches import PATCHES, patches_of, save_patches, without_patches
from fedqa.opening import OpenRun, model_at, open_run
from fedqa.parser_export import save_parser
from fedqa.skills.match import Match
from fedqa.skills.parse import Parse
from fedqa.tables import plain


def export(run: Path, silo: str, folder: Path) -> Path:
    """Write the folder, which must be new or empty; returns the model card."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise RunError(f"{folder} is not empty; name a new folder, so that no file of another model stays in it")
    opened = open_run(run)
    owner = opened.silo(silo)
    module = model_at(owner, "best")
    card = folder / "README.md"
    if isinstance(owner.skill, Parse):
        save_parser(opened, owner, module, folder)
        write_text(card, _PARSER_CARD.format(folder=str(folder), head=HEAD, **_facts(opened, owner)))
        return card
    if not isinstance(owner.skill, Match):
        raise RunError(f"silo {silo!r} learnt {owner.skill.name!r}; models of 'match' and 'parse' can be exported")
    if not isinstance(module, Matcher):
        raise RunError(
            f"silo {silo!r} learnt 'match' with the interaction {owner.skill.options.interaction!r}, which has no "
            f"encoder; models of the interactions {', '.join(_COMPARED)} can be exported"
        )
    _save_encoder(opened.setting.backbone, module, folder)
    _save_head(owner.skill, module, folder / HEAD)
    write_text(card, model_card(opened, owner, folder))
    return card


def _save_encoder(backbone: Backbone, module: Matcher, folder: Path) -> None:
    # The module's parameters lie in one buffer, which a file format of separate tensors cannot take.
    encoder = backbone.fresh()
    encoder.load_state_dict(module.encoder.state_dict())
    whole = backbone.trunk.with_layers(encoder) if backbone.trunk else encoder
    whole.save_pretrained(folder, state_dict=without_patches(whole))
    backbone.tokenizer.save_pretrained(folder)
    if patches_of(encoder):
        save_patches(encoder, folder / PATCHES)


def _save_head(skill: Match, module: nn.Module, path: Path) -> None:
    """All that is not the encoder, with the skill's options as metadata."""
    head = {name: value for name, value in module.named_parameters() if not name.startswith("encoder.")}
    write_tensors(path, head, {"skill": skill.name, "options": json.dumps(plain(skill.options))})


def model_card(run: OpenRun, silo: Silo, folder: Path) -> str:
    skill = silo.skill
    assert isinstance(skill, Match)
    patches = patches_of(run.setting.backbone.encoder)
    return _CARD.format(
        **_facts(run, silo),
        code=loading_code(str(folder), skill.options.max_passage, patched=bool(patches)),
        head=HEAD,
        options=json.dumps(plain(skill.options)),
        compared=_COMPARED[skill.options.interaction],
        library="fedqa" if patches else "transformers",
        patches=_PATCHED.format(names=", ".join(f"`{patch.name}`" for patch in patches), file=PATCHES)
        if patches
        else "",
    )


def _facts(run: OpenRun, silo: Silo) -> dict[str, object]:
    """What every card tells of a model."""
    course = run.course
    return {
        "silo": silo.name,
        "name": course.name,
        "method": course.method,
        "model": course.model,
        "rounds": course.rounds,
        "seed": course.seed,
        "course": course.fingerprint,
        "version": __version__,
        "chosen": _chosen(silo),
        "scores": _scores(RunFolder(run.folder).result(), silo.name) or "Nothing was scored.",
    }


def _chosen(silo: Silo) -> str:
    best, rounds = silo.state.best(), silo.course.rounds
    if best is None or not rounds:
        return "as it was loaded" if not rounds else "which the silo has none of: its last one"
    return f"its {best.point} model {f'of round {best.round}' if best.round <= rounds else 'after the last round'}"


def loading_code(folder: str, max_passage: int, *, patched: bool) -> str:
    """The lines of the card that load the model and encode passages."""
    loader = "load_exported" if patched else "AutoModel.from_pretrained"
    imports = "AutoTokenizer\nfrom fedqa.models.patches import load_exported" if patched else "AutoModel, AutoTokenizer"
    return f"""\
from torch.nn.functional import normalize
from transformers import {imports}
tokenizer, model = AutoTokenizer.from_pretrained({folder!r}), {loader}({folder!r})
inputs = tokenizer(["A passage."], return_tensors="pt", padding=True, truncation=True, max_length={max_passage})
vectors = normalize((model(**inputs).last_hidden_state * inputs["attention_mask"].unsqueeze(-1)).sum(dim=1), dim=-1)"""


def _scores(result: dict[str, Any], silo: str) -> str:
    best = result["silos"].get(silo, {}).get("best", {})
    metrics = dict.fromkeys(metric for split in best.values() for metric in split)
    rows = [
        f"| {metric_name(metric)} | {' | '.join(_cell(best.get(split, {}).get(metric)) for split in ('dev', 'test'))} |"
        for metric in metrics
    ]
    return "\n".join(["| metric | dev | test |", "|---|--:|--:|", *rows]) if rows else ""


def _cell(value: float | None) -> str:
    return "\N{EN DASH}" if value is None else number(value)


_COMPARED = {
    "dual": "A passage's score is the cosine of its vector with the question's, times `exp(log_scale)` of the head.",
    "cross": "Scores come from reading question and passage together, through `cross` of the head; "
    "the vectors above only preselect passages.",
    "residual": "A passage's score is the cosine of its vector with the question's, times `exp(log_scale)`, "
    "plus `cross` of the head over both read together.",
}

_PATCHED = """\
The model is an encoder with patches in it ({names}): `model.safetensors` holds the encoder without them, `{file}` the
patches, and `load_exported` puts them together. A loader that reads the first file alone gives another model, without
saying so.

"""

_CARD = """\
---
library_name: {library}
pipeline_tag: feature-extraction
tags: [question-answering, federated-learning]
---

# {silo}: passages that answer a question

The model of the silo **{silo}** in the alliance *{name}*, trained with fedqa {version}: method `{method}`, starting
from `{model}`, {rounds} rounds, seed {seed}. It is the one that did best on the silo's own dev questions ({chosen}).

Course `{course}`.

{scores}

## Loading it

```python
{code}
```

{patches}{compared} The head is in `{head}`; its options are `{options}`.

## Before you pass it on

It was trained on {silo}'s own text, and a model can give away what it was trained on. Whether it may leave the
organisation is for those to decide who answer for that text.
"""

_PARSER_CARD = """\
---
library_name: fedqa
pipeline_tag: table-question-answering
tags: [text-to-sql, federated-learning]
---

# {silo}: questions into SQL

The model of the silo **{silo}** in the alliance *{name}*, trained with fedqa {version}: method `{method}`, starting
from `{model}`, {rounds} rounds, seed {seed}. It is the one that did best on the silo's own dev questions ({chosen}).

Course `{course}`.

{scores}

## Asking it

```python
from fedqa.answering.querying import Querying
with Querying.exported({folder!r}, "database.sqlite") as querying:
    answer = querying.ask("How many rows are there?")
print(answer.sql, answer.sentence)
```

Or `fedqa ask FOLDER {silo} "…" --database WHERE`. The schema is read from the database; what was trained is in
`{head}`.

## Before you pass it on

It was trained on {silo}'s own questions and SQL, and a model can give away what it was trained on. Whether it may leave
the organisation is for those to decide who answer for them.
"""
