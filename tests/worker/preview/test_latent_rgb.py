"""The map from latents to RGB comes from the card if it is valid for the VAE, else from the cache, else from a fit."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from omni_cli.models.cards import LatentRgb
from omni_cli.models.registry import known_card
from omni_cli.worker.preview.latent_rgb import latent_rgb_of
from tests.worker.preview.test_latent_rgb_fit import LinearVae


class Lookup:
    """Looks up maps with a cache in `folder` and counts the fits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fits = 0

    def __call__(self, revision: str | None, card: str = "WanPipeline", **config: Any) -> LatentRgb:
        known, environ = known_card(card), {"XDG_CACHE_HOME": str(self.folder)}
        assert known is not None
        vae = LinearVae(video=False, **config)
        return latent_rgb_of(vae, known, revision, torch.device("cpu"), self._count, environ)

    def _count(self, what: str) -> None:
        self.fits += 1


@pytest.fixture
def lookup(tmp_path: Path) -> Lookup:
    return Lookup(tmp_path)


def test_a_fit_is_cached_per_revision_and_an_invalid_file_is_fitted_again(lookup: Lookup) -> None:
    fitted = lookup("r1")
    assert lookup("r1") == fitted
    assert lookup.fits == 1
    lookup("r2")
    assert lookup.fits == 2
    cached, _ = sorted((lookup.folder / "omni-gen" / "latent-rgb").iterdir())
    assert msgspec.json.decode(cached.read_bytes(), type=LatentRgb) == fitted
    for number, invalid in enumerate((b"", b'{"weights": 1}', b"\xff"), 3):
        cached.write_bytes(invalid)
        lookup("r1")
        lookup("r2")
        assert lookup.fits == number


def test_without_a_revision_or_a_writable_cache_the_fit_is_repeated(lookup: Lookup) -> None:
    fitted = lookup(None)
    assert not [*lookup.folder.iterdir()]
    (lookup.folder / "omni-gen").write_text("a file where the cache folder should be")
    assert lookup("r1") == lookup("r1") == fitted
    assert lookup.fits == 3


def test_without_a_home_folder_the_fit_is_repeated_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lookup = Lookup(Path("~no-such-user"))  # as "~" of a user without a home: it cannot be expanded
    assert lookup("r1") == lookup("r1")
    assert lookup.fits == 2
    assert not [*tmp_path.iterdir()]


def test_the_map_of_the_card_is_used_only_for_a_vae_that_it_fits(lookup: Lookup) -> None:
    for card in ("StableDiffusionPipeline", "StableDiffusionXLPipeline"):
        known = lookup("r", card, latent_channels=4)
        levels = torch.tensor(known.bias)
        assert len(known.weights) == 4
        assert 120 < levels.min() <= levels.max() < 160, "latents of zero are a middle grey"
    assert lookup.fits == 0
    statistics = {"latents_mean": [0.0] * 4, "latents_std": [1.0] * 4}
    lookup("r", "StableDiffusionXLPipeline", latent_channels=4, **statistics)  # as Playground 2.5
    lookup("r16", "StableDiffusionXLPipeline", latent_channels=16)
    assert lookup.fits == 2
