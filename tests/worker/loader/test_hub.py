"""Models on the hub: errors say what to do, and what planning needs is fetched without the weights."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants, hf_api

from omni_cli.config import ModelConfig
from omni_cli.errors import ModelLoadError
from omni_cli.worker.loader import identify
from tests.worker.loader.conftest import Tiny, load_quietly

COMMIT = "c" * 40


class _Handler(BaseHTTPRequestHandler):
    """Serves the files of the server's folder as the repository owner/name."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        server = self.server
        assert isinstance(server, _FolderServer)
        path = self.path.partition("?")[0]
        body: bytes | None
        if path.startswith("/api/models/"):
            files = sorted(file for file in server.folder.rglob("*") if file.is_file())
            names = [str(file.relative_to(server.folder)) for file in files]
            tree = [{"type": "file", "path": name, "size": 1, "oid": name} for name in names]
            info = {"id": "owner/name", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            body = json.dumps(tree if "/tree/" in path else info).encode()
        else:
            file = server.folder / path.split("/resolve/")[1].partition("/")[2]
            body = file.read_bytes() if file.is_file() else None
            if with_body and body is not None:
                server.sent.append(str(file.relative_to(server.folder)))
        self.send_response(404 if body is None else 200)
        self.send_header("X-Repo-Commit", COMMIT)
        if body is None:
            self.send_header("X-Error-Code", "EntryNotFound")
        self.send_header("ETag", f'"{hashlib.sha256(body or b"").hexdigest()}"')
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        if with_body:
            self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        return


class _FolderServer(ThreadingHTTPServer):
    """A hub with one repository, the files of `folder`; `sent` are those that were downloaded."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.sent: list[str] = []


@pytest.fixture
def hub(copy_of: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[_FolderServer]:
    """A hub with a tiny Stable Diffusion, whose card in its repository asks for 7 steps; an empty local cache."""
    folder = copy_of("stable_diffusion")
    (folder / "omni-gen.toml").write_text("[cards.StableDiffusionPipeline]\ndefaults = { num_inference_steps = 7 }\n")
    server = _FolderServer(folder)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(hf_api.api, "endpoint", endpoint)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.usefixtures("offline")
def test_an_uncached_hub_model_is_an_error_with_advice_when_offline() -> None:
    with pytest.raises(ModelLoadError, match=r"'nobody/nothing'.*not in the local cache and HF_HUB_OFFLINE is set"):
        load_quietly("nobody/nothing")


def test_identifying_a_model_fetches_its_configuration_and_its_card_and_no_weights(hub: _FolderServer) -> None:
    facts = identify(ModelConfig(model="owner/name", device="cpu"), lambda _: None)
    assert facts is not None
    defaults = facts.card.defaults
    assert (facts.info.revision, defaults.height, defaults.num_inference_steps) == (COMMIT, 64, 7)
    assert {"model_index.json", "omni-gen.toml", "unet/config.json", "vae/config.json"} <= set(hub.sent)
    assert not [name for name in hub.sent if name.endswith((".safetensors", "tokenizer.json"))]


def test_a_downloaded_model_has_the_card_of_its_repository(hub: _FolderServer, tiny_model: Tiny) -> None:
    card = load_quietly("owner/name").card
    assert (card.defaults.height, card.defaults.num_inference_steps) == (64, 7)
    assert load_quietly(str(tiny_model("stable_diffusion"))).card.defaults.num_inference_steps == 50
    assert "unet/diffusion_pytorch_model.safetensors" in hub.sent
