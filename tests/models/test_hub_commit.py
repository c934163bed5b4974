"""The hub is asked once, with a limit in time; what to do is said in any case."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants, file_download
from huggingface_hub.utils import build_hf_headers  # noqa: F401 - imported before a test changes constants

from omni_cli.config import EngineConfig, ModelConfig
from omni_cli.errors import HubUnreachable, ModelLoadError
from omni_cli.log import warnings_to
from omni_cli.models.hub_commit import ask_commit, is_cached
from omni_cli.planner.facts import KnownFacts

COMMIT, OTHER = "a" * 40, "b" * 40
DTYPES = ("float32", "bfloat16", "float16")
Hub = Callable[..., None]


class _Handler(BaseHTTPRequestHandler):
    """Answers HEAD of model_index.json: 200 with the commit, or the status and code of the server's attributes."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        server = self.server
        assert isinstance(server, _Server)
        server.asked.append(self.path)
        server.may_answer.wait(20)
        self.send_response(server.status)
        self.send_header("Content-Length", "0")
        self.send_header("ETag", '"x"')
        self.send_header("X-Repo-Commit", server.commit)
        if server.code:
            self.send_header("X-Error-Code", server.code)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named by http.server
        return


class _Server(ThreadingHTTPServer):
    """A hub with one answer."""

    daemon_threads = True
    status, code, commit = 200, "", COMMIT

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.may_answer = threading.Event()
        self.may_answer.set()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    server = _Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    yield server
    server.may_answer.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The hub's local cache, with the index of owner/name at COMMIT, which is main."""
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(file_download.constants, "HF_HUB_CACHE", str(tmp_path))
    repo = tmp_path / "models--owner--name"
    snapshot = repo / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "model_index.json").write_text('{"_class_name": "FluxPipeline", "_diffusers_version": "0.42.0"}')
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(COMMIT)
    return snapshot


@contextmanager
def warnings() -> Iterator[list[str]]:
    texts: list[str] = []
    with warnings_to(texts.append):
        yield texts


def test_the_commit_of_a_branch_is_asked_for_once(hub: _Server) -> None:
    with warnings() as texts:
        assert ask_commit("owner/name", "dev") == COMMIT
    assert (hub.asked, texts) == (["/owner/name/resolve/dev/model_index.json"], [])


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        (401, "GatedRepo", "the model is gated"),
        (404, "RepoNotFound", "there is no such model on the hub"),
        (404, "RevisionNotFound", "check --revision"),
        (403, "", "the hub refused the request"),
        (503, "", r"cannot be reached \(.*503"),
    ],
)
def test_a_refusal_is_told_at_once(hub: _Server, status: int, code: str, message: str) -> None:
    hub.status, hub.code = status, code
    with pytest.raises(ModelLoadError, match=message):
        ask_commit("owner/name", None)
    assert len(hub.asked) == 1


def test_a_repository_without_an_index_has_no_answer(hub: _Server) -> None:
    hub.status, hub.code = 404, "EntryNotFound"
    assert ask_commit("owner/name", None) is None


def test_a_slow_hub_is_told_and_waited_for_up_to_a_limit(hub: _Server) -> None:
    hub.may_answer.clear()
    with warnings() as texts, pytest.raises(HubUnreachable, match=r"no answer within 0\.1 s\).*HF_HUB_OFFLINE=1"):
        ask_commit("owner/name", None, slow=0.05, limit=0.1)
    (text,) = texts
    assert text.startswith(f"waiting for {constants.ENDPOINT} to answer for owner/name")
    assert "HF_HUB_OFFLINE=1" in text


def test_no_connection_is_told_at_once(hub: _Server) -> None:
    hub.shutdown()
    hub.server_close()
    with warnings() as texts, pytest.raises(HubUnreachable, match=r"cannot be reached.*check the network"):
        ask_commit("owner/name", None)
    assert texts == []


def look_up(**model: str) -> bool:
    """Return whether a run knows the facts of a model of the hub."""
    facts = KnownFacts(EngineConfig(), network=True)
    return facts.look_up(ModelConfig(**({"model": "owner/name", "device": "cpu"} | model))) is not None  # type: ignore[arg-type]


def test_a_model_in_the_cache_is_known_while_the_hub_has_the_same_commit(hub: _Server, cache: Path) -> None:
    assert is_cached("owner/name", None)
    assert look_up()
    hub.commit = OTHER
    assert not look_up(), "a worker downloads the new one"
    asked = len(hub.asked)
    assert look_up(revision=COMMIT), "a commit never changes"
    assert len(hub.asked) == asked


@pytest.mark.parametrize("status", [401, 403, 404, 429, 503, None], ids=str)
def test_a_model_in_the_cache_is_used_if_the_hub_cannot_be_reached_or_refuses(
    hub: _Server, cache: Path, status: int | None
) -> None:
    if status is None:
        hub.shutdown()
        hub.server_close()
    else:
        hub.status, hub.code = status, "RepoNotFound" if status == 404 else ""
    with warnings() as texts:
        assert look_up()
    (text,) = texts
    assert "owner/name is used as it is in the local cache" in text
    with pytest.raises(ModelLoadError, match="--model 'owner/other'"):
        look_up(model="owner/other")


def test_of_many_models_only_the_first_waits_for_the_hub(hub: _Server, cache: Path) -> None:
    hub.status = 503
    facts = KnownFacts(EngineConfig(), network=True)
    with warnings() as texts:
        assert all(facts.look_up(ModelConfig(model="owner/name", device="cpu", dtype=name)) for name in DTYPES)
    assert (len(hub.asked), len(texts)) == (1, 1)


def test_offline_the_hub_is_not_asked(hub: _Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert look_up()
    with pytest.raises(ModelLoadError, match=r"'owner/other'.*not in the local cache and HF_HUB_OFFLINE is set"):
        look_up(model="owner/other")
    assert hub.asked == []


def test_a_check_of_a_prompt_file_does_not_ask_the_hub(hub: _Server, cache: Path) -> None:
    assert KnownFacts(EngineConfig()).look_up(ModelConfig(model="owner/name", device="cpu")) is not None
    assert hub.asked == []
