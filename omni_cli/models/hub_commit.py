"""Ask the Hugging Face hub which commit a model is at: one request, without retries, with a limit in time.

huggingface_hub is imported when the hub is asked. Its own downloads retry for minutes where there is no network.
"""

import queue
import re
import threading

from omni_cli.errors import HubUnreachable, ModelLoadError
from omni_cli.log import logger
from omni_cli.models.model_files import CONFIG
from omni_cli.models.registry import INDEX

SLOW_S = 2.0
"""Seconds without an answer after which the wait is told."""

LIMIT_S = 10.0
"""Seconds to wait for an answer; huggingface_hub waits as long for each of its requests (HF_HUB_ETAG_TIMEOUT)."""

_COMMIT = re.compile(r"[0-9a-f]{40}")


def is_commit(revision: str | None) -> bool:
    """Return whether `revision` is a commit, whose content never changes, rather than a branch or a tag."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def is_offline() -> bool:
    """Return whether HF_HUB_OFFLINE is set: only the local cache may be used."""
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def is_cached(repo: str, revision: str | None) -> bool:
    """Return whether a pipeline's index, or the configuration of a transformers model, is in the local cache."""
    from huggingface_hub import try_to_load_from_cache

    return any(isinstance(try_to_load_from_cache(repo, name, revision=revision), str) for name in (INDEX, CONFIG))


def check_cached(repo: str, revision: str | None) -> None:
    """Raise ModelLoadError unless `is_cached`, for a process that may only use the cache."""
    if not is_cached(repo, revision):
        from huggingface_hub.errors import OfflineModeIsEnabled

        from omni_cli.models.hub_errors import hub_advice

        raise ModelLoadError(f"--model {repo!r}: {hub_advice(OfflineModeIsEnabled())}")


def ask_commit(repo: str, revision: str | None, slow: float = SLOW_S, limit: float = LIMIT_S) -> str | None:
    """Return the commit that `revision` (None: the main branch) of `repo` is at; None if it has no model_index.json.

    Logs a warning after `slow` seconds. Raises HubUnreachable after `limit` seconds or without a network, and
    ModelLoadError with what to do about it if the hub refuses.
    """
    from huggingface_hub import constants
    from huggingface_hub import errors as hub_errors

    from omni_cli.models.hub_errors import UNREACHABLE, causes, hub_advice

    answers: queue.SimpleQueue[str | Exception | None] = queue.SimpleQueue()
    threading.Thread(target=_ask, args=(repo, revision, limit, answers), name="hub", daemon=True).start()
    try:
        answer = answers.get(timeout=slow)
    except queue.Empty:
        logger.warning(
            "waiting for %s to answer for %s, %g s at most; with HF_HUB_OFFLINE=1 only the local cache is used",
            constants.ENDPOINT,
            repo,
            limit,
        )
        try:
            answer = answers.get(timeout=max(0.0, limit - slow))
        except queue.Empty:
            answer = TimeoutError(f"no answer within {limit:g} s")
    if not isinstance(answer, Exception):
        return answer
    if isinstance(answer, hub_errors.EntryNotFoundError):
        return None
    for cause in causes(answer):
        is_down = isinstance(cause, hub_errors.HfHubHTTPError) and cause.response.status_code >= 500
        if isinstance(cause, UNREACHABLE) or is_down:
            raise HubUnreachable(repo, f"{constants.ENDPOINT} cannot be reached ({cause})") from answer
    raise ModelLoadError(f"--model {repo!r}: {hub_advice(answer)}") from answer


def _ask(repo: str, revision: str | None, limit: float, answers: "queue.SimpleQueue[str | Exception | None]") -> None:
    """Put the hub's answer into `answers`, or what the request raises."""
    try:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        answers.put(get_hf_file_metadata(hf_hub_url(repo, INDEX, revision=revision), timeout=2 * limit).commit_hash)
    except Exception as error:  # boundary: raised again, translated, by the caller
        answers.put(error)
