"""`adapt`: from a parent and data to a checkpoint."""

import os
from collections.abc import Callable
from pathlib import Path

import torch

from unmask.core.backbone import Backbone
from unmask.errors import TrainingError
from unmask.store.checkpoint import load_checkpoint
from unmask.store.embedded import ALIASES
from unmask.store.folders import recover_folder
from unmask.store.vocabulary import add_mask_token, end_token_ids
from unmask.train.chat import Sample, cut_sample, encode_row
from unmask.train.loop import Budget, StepReport, train
from unmask.train.objective import make_objective
from unmask.train.optim import make_optimizer
from unmask.train.pack import Packer
from unmask.train.plan import Plan, make_plan
from unmask.train.recipe import Recipe
from unmask.train.run import Identity, Progress, Run, load_optimizer, read_progress
from unmask.train.source import Source, open_source
from unmask.train.step import training_row
from unmask.train.trainable import make_trainable
from unmask.train.world import find_world

ROWS_LOOKED_AT = 8
"""Rows from which the plan is worked out."""


def adapt(
    model: str,
    data: str,
    out: str | Path,
    *,
    recipe: Recipe | None = None,
    budget: Budget | None = None,
    resume: bool = False,
    is_dry_run: bool = False,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    on_plan: Callable[[Plan], None] = lambda _plan: None,
    on_step: Callable[[StepReport], None] = lambda _step: None,
    on_progress: Callable[[str, float | None], None] = lambda _text, _share: None,
) -> Path:
    """Adapt MODEL on DATA into the folder `out`.

    Args:
        model: folder, hub id or alias of the parent.
        data: `file.jsonl` or `gym:NAME`.
        out: the checkpoint; whole at any time from the first save on.
        recipe: what to compute; the default recipe where None.
        budget: when to stop; `recipe.steps` where None.
        resume: go on from what `out` holds.
        is_dry_run: stop when the plan is told.
        device: where to compute.
        dtype: in which forwards are computed, float32 or bfloat16; weights stay float32.
        on_plan: told the plan before anything is computed.
        on_step: told about each optimizer step.
        on_progress: told about downloads.

    Returns:
        `out`.

    Raises:
        UnmaskError: of the kind that tells what went wrong.
    """
    out, recipe = Path(out), recipe or Recipe()
    budget = budget or Budget(steps=recipe.steps)
    _check_out(out, resume=resume)
    if resume:
        _check_resumable(recipe, budget)
    if dtype == torch.float16:
        raise TrainingError("float16 would need loss scaling; train in bfloat16 or float32")
    source = open_source(data, seed=recipe.seed)
    identity = Identity(
        parent=_lasting_name(model), data=source.name, rows=source.fingerprint, dtype=str(dtype)
    )
    run = _open_run(identity, recipe, out if resume else None, device, dtype, on_progress)
    scout = _packer(run, source)
    rows = [training_row(run, scout, number, 1.0) for number in range(ROWS_LOOKED_AT)]
    on_plan(make_plan(run, rows, budget, scout.too_long))
    if not is_dry_run:
        train(run, _packer(run, source), budget, out, on_step)
    return out


def _lasting_name(model: str) -> str:
    """A folder is found again from anywhere."""
    return model if model in ALIASES or not Path(model).exists() else str(Path(model).resolve())


def _check_resumable(recipe: Recipe, budget: Budget) -> None:
    """What follows the share of the whole run is not told where it ends by minutes from now."""
    follows = [] if recipe.schedule == "constant" else [f"schedule {recipe.schedule}"]
    follows += ["block_sizes growing"] if recipe.block_sizes == "growing" else []
    if follows and budget.steps is None and budget.tokens is None:
        raise TrainingError(
            f"{follows[0]} needs to know where a resumed run ends; use --steps or --tokens instead "
            "of --minutes"
        )


def _check_out(out: Path, *, resume: bool) -> None:
    """Fail now, not at the first save."""
    try:
        out.resolve().parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TrainingError(f"cannot write to {out}: {error}") from error
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out} is a file; --out is a folder")
    if not os.access(out.resolve().parent, os.W_OK):
        raise TrainingError(f"cannot write to {out.resolve().parent}; choose another --out")
    recover_folder(out)
    if out.exists() and not resume and any(out.iterdir()):
        raise TrainingError(f"{out} exists; add --resume to go on, or choose another --out")


def _packer(run: Run, source: Source) -> Packer:
    """Rows from where the run stands."""
    ends = end_token_ids(run.backbone.model, run.tokenizer)

    def sample_at(index: int) -> Sample:
        sample = encode_row(source.row(index), run.tokenizer, ends, run.backbone.mask_token_id)
        return cut_sample(sample, run.recipe.cut_share, f"{run.recipe.seed}/{index}")

    return Packer(
        sample_at,
        row_tokens=run.recipe.row_tokens,
        block_size=run.recipe.block_size,
        mask_token_id=run.backbone.mask_token_id or 0,  # AR pads are never read
        taken=run.progress.taken,
        too_long=run.progress.too_long,
    )


def _open_run(
    identity: Identity,
    recipe: Recipe,
    saved: Path | None,
    device: str,
    dtype: torch.dtype,
    on_progress: Callable[[str, float | None], None],
) -> Run:
    """A new run, or the one that `saved` holds, with its weights ready to train."""
    progress = Progress()
    if saved is not None:
        progress = read_progress(saved, identity=identity, recipe=recipe)
    world = find_world(device)
    device = str(world.device or device)
    adapters = saved if recipe.trainable == "lora" else None
    source = identity.parent if saved is None or adapters else str(saved)
    checkpoint = load_checkpoint(source, device=device, progress=on_progress)
    if checkpoint.gate is not None:
        raise TrainingError(f"{checkpoint.name} is a denoiser; adapt its parent instead")
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    mask_token_id = None
    if recipe.objective == "diffusion":
        mask_token_id = add_mask_token(model, tokenizer)
    trainable = make_trainable(
        model, recipe, parent=identity.parent, mask_token_id=mask_token_id, saved=adapters
    )
    if recipe.gradient_checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    backbone = Backbone(model, mask_token_id=mask_token_id, gate=trainable.gate)
    objective = make_objective(backbone, recipe)
    optimizer: torch.optim.Optimizer = make_optimizer(model, recipe)
    if saved is not None:
        load_optimizer(optimizer, saved)
    prepared, optimizer = world.prepare(objective, optimizer)
    return Run(
        identity=identity, recipe=recipe, save_weights=trainable.save, backbone=backbone,
        objective=objective, prepared=prepared, tokenizer=tokenizer, dtype=dtype,
        optimizer=optimizer, progress=progress, world=world,
    )  # fmt: skip
