"""Whose factors: the card's, where the VAE is the one they are known for; else a fit, kept for the next time."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch

from omni_cli.log import logger
from omni_cli.models.cards import Card, LatentRgb
from omni_cli.worker.preview.fit import fit

VERSION = 1
"""Of the fit: another one makes kept factors worthless."""


def factors(
    vae: Any,
    card: Card,
    revision: str | None,
    device: torch.device,
    report: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> LatentRgb:
    """The map from the latents of `vae` to colours. Raises what the VAE raises where it has to be fitted and cannot be.

    `revision` is that of the model, whose VAE can be no other; without it nothing is kept.
    """
    known = card.latent_rgb
    if (
        known is not None
        and vae.config.get("latents_mean") is None
        and len(known.weights) == vae.config.latent_channels
    ):
        return known
    path = _path(type(vae).__name__, revision, environ) if revision else None
    kept = _read(path) if path is not None else None
    if kept is not None:
        return kept
    report("the colours of previews")
    fitted = fit(vae, device)
    if path is not None:
        _keep(path, fitted)
    return fitted


def _path(vae: str, revision: str, environ: Mapping[str, str]) -> Path:
    """Where the fit of this VAE is kept (XDG Base Directory Specification)."""
    root = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    key = hashlib.sha256(f"{VERSION}\0{vae}\0{revision}".encode()).hexdigest()[:32]
    return root / "omni-gen" / "latent-rgb" / f"{key}.json"


def _read(path: Path) -> LatentRgb | None:
    """What is kept there; None if nothing is, or nothing that can be used."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=LatentRgb)
    except (OSError, msgspec.MsgspecError):
        return None


def _keep(path: Path, fitted: LatentRgb) -> None:
    """For the next time, whole or not at all; a cache that cannot be written costs only the fit of that time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        with contextlib.ExitStack() as undo:
            undo.callback(os.unlink, name)
            with os.fdopen(descriptor, "wb") as file:
                file.write(msgspec.json.encode(fitted))
            Path(name).replace(path)
            undo.pop_all()
    except OSError as error:
        logger.info("the colours of previews are not kept: %s", error)
