"""Turn a training run's adapter into one that ships with unmask: bfloat16, no trainer files.

    python benchmarks/pack_adapter.py RUN OUT PARENT

RUN is a folder that `unmask adapt` made with adapters, OUT a new folder (those that ship lie in
src/unmask/adapters), PARENT what its parent is loaded by.
The model card is written by hand, with figures from `unmask bench`.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from unmask.store.adapter import ADAPTER_CONFIG, ADAPTER_WEIGHTS


def main(run: Path, folder: Path, parent: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    weights = load_file(run / ADAPTER_WEIGHTS)
    packed = {key: tensor.to(torch.bfloat16) for key, tensor in weights.items()}
    save_file(packed, folder / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    settings = json.loads((run / ADAPTER_CONFIG).read_text())
    settings["base_model_name_or_path"] = parent
    (folder / ADAPTER_CONFIG).write_text(json.dumps(settings, indent=2) + "\n")
    if (run / "unmask.json").exists():
        config = json.loads((run / "unmask.json").read_text()) | {"base_model": parent}
        (folder / "unmask.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    shutil.copy(run / "trainer" / "log.jsonl", folder / "log.jsonl")
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{folder}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
