"""Shards: runs that share one output folder, each with its part of the requests, without talking to each other.

A shard is (I, N). Its requests are those whose id has a hash of I modulo N: a request that is added moves no other one.
Counting from 0 (0/N to N-1/N) and from 1 (1/N to N/N) are the same shards.
"""

import os
from collections.abc import Mapping
from hashlib import blake2b

Shard = tuple[int, int]
"""Number of a shard, and of all shards."""

SCHEDULERS = (
    ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_STEP"),
    ("CLOUD_RUN_TASK_INDEX", "CLOUD_RUN_TASK_COUNT", None, None),
    ("AWS_BATCH_JOB_ARRAY_INDEX", "AWS_BATCH_JOB_ARRAY_SIZE", None, None),
    ("JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", None, None),
)
"""Variables with the number of a job, the number of all, the first number, and the step between them.

https://slurm.schedmd.com/job_array.html
https://cloud.google.com/run/docs/container-contract#jobs-env-vars
https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html
https://kubernetes.io/docs/concepts/workloads/controllers/job/ (it sets no count: JOB_COMPLETIONS is the user's)
"""


def holds(shard: Shard, request_id: str) -> bool:
    """Return whether the request of that id is one of `shard`."""
    number, count = shard
    digest = blake2b(request_id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % count == number % count


def shard_name(shard: Shard | None) -> str:
    """Return the part of a file name that is the shard's own, ".0-of-4"; "" without a shard."""
    return "" if shard is None else f".{shard[0] % shard[1]}-of-{shard[1]}"


def scheduled_shard(count: int | None = None, environ: Mapping[str, str] = os.environ) -> Shard | None:
    """Return the shard of this job of an array, as its scheduler says; None if no scheduler does.

    `count` is the number of shards where the scheduler does not say it. Raises ValueError, naming the variable, for a
    value that is no number or a count that is missing.
    """
    for index_name, count_name, first_name, step_name in SCHEDULERS:
        if index_name not in environ:
            continue
        index = _number(environ, index_name)
        first = _number(environ, first_name) if first_name in environ else 0
        step = max(1, _number(environ, step_name)) if step_name in environ else 1
        if count is None and count_name not in environ:
            raise ValueError(f"{index_name} is set and {count_name} is not; give the number of shards, as in auto/8")
        count = count if count is not None else _number(environ, count_name)
        number = (index - first) // step
        if not 0 <= number < count:
            raise ValueError(f"{index_name}={environ[index_name]} is not one of {count} shards")
        return number, count
    return None


def _number(environ: Mapping[str, str], name: str | None) -> int:
    text = environ[name or ""]
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"{name}={text!r} is not a number")
    return int(text)
