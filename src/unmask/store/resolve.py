"""From what a user types to a folder: an alias, a folder, or a hub id."""

from pathlib import Path

from unmask.errors import ModelError
from unmask.store.adapter import ADAPTER_CONFIG
from unmask.store.embedded import ALIASES, Progress, fetch_embedded
from unmask.store.folders import readable_folder
from unmask.store.packaged import packaged_folder, packaged_names


def resolve_model(name: str, progress: Progress = lambda _text, _share: None) -> Path:
    """The local folder of MODEL.

    Args:
        name: a folder, an alias such as `smollm2`, an adapter that ships with unmask, or a hub id
            `owner/name`.
        progress: told about downloads.

    Raises:
        ModelError: nothing is found under this name.
    """
    folder = readable_folder(Path(name).expanduser())
    if folder.is_dir():
        if not any((folder / file).exists() for file in ("config.json", ADAPTER_CONFIG)):
            raise ModelError(f"{name} holds neither config.json nor adapter_config.json")
        return folder
    if name in ALIASES:
        return fetch_embedded(name, progress)
    if (packaged := packaged_folder(name)) is not None:
        return packaged
    if name.count("/") == 1 and not name.startswith((".", "/", "~")):
        return _download(name, progress)
    known = ", ".join([*ALIASES, *packaged_names()])
    raise ModelError(
        f"no model '{name}': not a folder, nor one of {known}, nor a hub id owner/name"
    )


def _download(hub_id: str, progress: Progress) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    progress(f"fetching {hub_id} from the Hugging Face hub", None)
    patterns = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
    try:
        return Path(snapshot_download(hub_id, allow_patterns=patterns))
    except (LocalEntryNotFoundError, HfHubHTTPError, HFValidationError) as error:
        raise ModelError(
            f"no folder '{hub_id}', and the hub did not give it ({type(error).__name__}); "
            "check the name and the connection"
        ) from error
