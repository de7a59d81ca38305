"""`World`: the processes that train one model together. One alone needs no library for it.

Every process packs and lays out the same rows in the same order, and computes its share of them: a
step is the same step whatever their number, and a run resumes on another number of them.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from unmask.errors import ConfigError

T = TypeVar("T")


class World:
    """This process alone."""

    rank, size = 0, 1

    @property
    def device(self) -> torch.device | None:
        """Where this process computes; None = where the user said."""
        return None

    def prepare(
        self, objective: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Both, ready to compute their share."""
        return objective, optimizer

    def mine(self, rows: list[T]) -> list[T]:
        """The rows of a step that this process computes."""
        return rows

    def hold_back(self, objective: nn.Module) -> AbstractContextManager[Any]:
        """Gradients stay here for now: more rows of the step follow."""
        return nullcontext()

    def backward(self, loss: Tensor) -> None:
        """Add this process's share of the gradient of the sum over all of them."""
        loss.backward()  # type: ignore[no-untyped-call]

    def clip(self, weights: list[nn.Parameter], norm: float) -> float:
        """Clip the gradient of the whole step; returns its norm before."""
        return float(nn.utils.clip_grad_norm_(weights, norm))

    def total(self, tensor: Tensor) -> Tensor:
        """Sum over all processes."""
        return tensor

    def most(self, value: float) -> float:
        """The largest of all processes' values: what they agree on."""
        return value

    def wait(self) -> None:
        """Until all are here."""


class Together(World):
    """One of several processes, through Accelerate: DDP, or what its configuration says."""

    def __init__(self, *, on_cpu: bool) -> None:
        from accelerate import Accelerator

        self._accelerator = Accelerator(cpu=on_cpu)
        self.rank = self._accelerator.process_index
        self.size = self._accelerator.num_processes

    @property
    def device(self) -> torch.device | None:
        """Each process has its own."""
        return self._accelerator.device  # type: ignore[no-any-return]

    def prepare(
        self, objective: nn.Module, optimizer: torch.optim.Optimizer
    ) -> tuple[nn.Module, torch.optim.Optimizer]:
        """Wrapped by Accelerate."""
        return self._accelerator.prepare(objective, optimizer)  # type: ignore[no-any-return]

    def mine(self, rows: list[T]) -> list[T]:
        """Every `size`-th row.

        Raises:
            ConfigError: they cannot be shared out evenly.
        """
        if len(rows) % self.size:
            raise ConfigError(
                f"rows_per_step {len(rows)} cannot be shared out to {self.size} processes; "
                f"use a multiple, such as {-(-len(rows) // self.size) * self.size}"
            )
        return rows[self.rank :: self.size]

    def hold_back(self, objective: nn.Module) -> AbstractContextManager[Any]:
        """DDP sends gradients round at the last row only."""
        return self._accelerator.no_sync(objective)  # type: ignore[no-any-return]

    def backward(self, loss: Tensor) -> None:
        """DDP takes the mean over processes; the step wants the sum."""
        self._accelerator.backward(loss * self.size)

    def clip(self, weights: list[nn.Parameter], norm: float) -> float:
        """The norm is that of all shards."""
        return float(self._accelerator.clip_grad_norm_(weights, norm))

    def total(self, tensor: Tensor) -> Tensor:
        """By all-reduce."""
        return self._accelerator.reduce(tensor, reduction="sum")  # type: ignore[no-any-return]

    def most(self, value: float) -> float:
        """By gathering them."""
        here = torch.tensor([value], dtype=torch.float64, device=self._accelerator.device)
        return float(self._accelerator.gather(here).max())

    def wait(self) -> None:
        """A barrier."""
        self._accelerator.wait_for_everyone()


def find_world(device: str) -> World:
    """What a launcher (accelerate launch, torchrun) has put us into."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return World()
    return Together(on_cpu=device == "cpu")
