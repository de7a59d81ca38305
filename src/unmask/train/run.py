"""`Run`: everything a training run is at one moment, and how it is written and read back.

A saved run is a loadable checkpoint folder at any time; what only the trainer needs lies in its
`trainer/`. Randomness is derived from (seed, row number), so there is no generator to save.
"""

import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

import unmask
from unmask.config import DiffusionConfig
from unmask.core.backbone import Backbone
from unmask.errors import TrainingError
from unmask.store.folders import replace_folder
from unmask.store.vocabulary import MASK_TOKEN, embedding_rows
from unmask.train.objective import Objective
from unmask.train.recipe import Recipe
from unmask.train.world import World

TRAINER_FOLDER = "trainer"


@dataclass(slots=True)
class Progress:
    """How far a run is."""

    step: int = 0
    taken: int = 0
    """Samples used from the source."""
    too_long: int = 0
    """Of those, left out because they do not fit into a row."""
    targets_seen: int = 0
    """Supervised tokens."""
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)
    """One line per optimizer step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What, beside the recipe, makes two runs the same run."""

    parent: str
    """What is adapted, as the user named it; absolute where it is a folder."""
    data: str
    rows: str
    """Fingerprint of the rows of `data`."""
    dtype: str


@dataclass(slots=True, kw_only=True)
class Run:
    """A training run in memory."""

    identity: Identity
    recipe: Recipe
    save_weights: Callable[[Path], object]
    """Writes what is trained into a folder."""
    backbone: Backbone
    objective: Objective
    prepared: torch.nn.Module
    """The objective as the world computes it."""
    tokenizer: Any
    dtype: torch.dtype
    """In which forwards are computed; weights and optimizer are float32 always."""
    optimizer: torch.optim.Optimizer
    progress: Progress
    world: World = field(default_factory=World)

    def diffusion_config(self) -> DiffusionConfig:
        """What `unmask.json` will say."""
        recipe = self.recipe
        assert self.backbone.mask_token_id is not None, "an AR run has no diffusion config"
        return DiffusionConfig(
            context=recipe.context,
            block_size=recipe.block_size,
            sub_block_size=recipe.sub_block_size,
            token_shift=recipe.token_shift,
            mask_token=MASK_TOKEN,
            mask_token_id=self.backbone.mask_token_id,
            embedding_rows=embedding_rows(self.backbone.model),
            base_model=self.identity.parent,
            provenance=self.provenance(),
        )

    def provenance(self) -> dict[str, Any]:
        """Where the weights come from."""
        return {
            "unmask": unmask.__version__,
            "data": self.identity.data,
            "steps": self.progress.step,
            "supervised_tokens": self.progress.targets_seen,
            "samples_too_long": self.progress.too_long,
            "training_seconds": round(self.progress.seconds, 1),
            "recipe": dataclasses.asdict(self.recipe),
        }

    def save(self, folder: Path) -> None:
        """Put this run into `folder`, whole or not at all; the first process does."""
        if self.world.rank == 0:
            replace_folder(folder, self._write)
            if self.recipe.keep:
                self._keep(folder.with_name(f"{folder.name}.steps"))
        self.world.wait()

    def _keep(self, folder: Path) -> None:
        """A checkpoint without what only the trainer needs, and no more than the last few."""
        replace_folder(folder / f"{self.progress.step:07d}", self._write_model)
        for old in sorted(folder.iterdir())[: -self.recipe.keep]:
            shutil.rmtree(old)

    def _write_model(self, folder: Path) -> None:
        self.save_weights(folder)
        self.tokenizer.save_pretrained(folder)
        if self.recipe.objective == "diffusion":
            self.diffusion_config().save(folder)

    def _write(self, folder: Path) -> None:
        self._write_model(folder)
        trainer = folder / TRAINER_FOLDER
        trainer.mkdir()
        save_file(_flat(self.optimizer), trainer / "optimizer.safetensors")
        progress = dataclasses.asdict(self.progress)
        log = [json.dumps(line) + "\n" for line in progress.pop("log")]
        (trainer / "log.jsonl").write_text("".join(log), encoding="utf-8")
        state = {
            "identity": dataclasses.asdict(self.identity),
            "progress": progress,
            "provenance": self.provenance(),
        }
        (trainer / "state.json").write_text(json.dumps(state, indent=2) + "\n", encoding="utf-8")


MAY_CHANGE = {"steps", "save_every", "keep", "learning_rate", "gradient_checkpointing"}
"""Recipe keys that a resumed run may be given anew."""


def read_progress(folder: Path, *, identity: Identity, recipe: Recipe) -> Progress:
    """Progress of a saved run.

    Raises:
        TrainingError: nothing to resume, or it is damaged, or another run's.
    """
    path = folder / TRAINER_FOLDER / "state.json"
    if not path.exists():
        raise TrainingError(f"nothing to resume in {folder}; leave --resume out to start")
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        known = dataclasses.asdict(Recipe())  # a run made before a key was there had its default
        before = {**known, **state["provenance"]["recipe"], **state["identity"]}
        lines = (path.parent / "log.jsonl").read_text(encoding="utf-8").splitlines()
        progress = Progress(**state["progress"], log=[json.loads(line) for line in lines])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainingError(f"{path.parent} is damaged ({error}); start anew") from error
    now = {**dataclasses.asdict(recipe), **dataclasses.asdict(identity)}
    changed = [key for key in now if key not in MAY_CHANGE and before.get(key) != now[key]]
    if changed:
        raise TrainingError(
            f"{folder} was made with other settings ({', '.join(changed)}); resume with the same "
            "ones or choose another --out"
        )
    return progress


def load_optimizer(optimizer: torch.optim.Optimizer, folder: Path) -> None:
    """Put the saved moments back into a fresh optimizer over the same weights."""
    path = folder / TRAINER_FOLDER / "optimizer.safetensors"
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise TrainingError(f"{path} is damaged ({error}); start anew") from error
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        index, key = name.split(".", 1)
        state.setdefault(int(index), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})


def _flat(optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    state = optimizer.state_dict()["state"]
    return {f"{index}.{key}": value for index, each in state.items() for key, value in each.items()}
