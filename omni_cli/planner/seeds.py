"""A seed belongs to a sample: said, or derived from what the sample is, never from a batch, a worker or a clock."""

from hashlib import blake2b

from omni_cli.request import MAX_SEED


def sample_seeds(seed: int | None, count: int, base_seed: int, request_id: str) -> tuple[int, ...]:
    """The seeds of the `count` outputs of a request, each 0..MAX_SEED.

    `seed` given: seed, seed + 1, ..., wrapping to 0 after MAX_SEED. Else the first 63 bits of BLAKE2b over base seed, id
    and sample number: the same in every run, and another for every id.
    """
    if seed is not None:
        return tuple((seed + n) % (MAX_SEED + 1) for n in range(count))
    return tuple(_derived(base_seed, request_id, n) for n in range(count))


def _derived(base_seed: int, request_id: str, n: int) -> int:
    # The id comes last: the numbers before it hold no line break, so no two triples are written alike.
    triple = f"{base_seed}\n{n}\n{request_id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(triple, digest_size=8, person=b"omni-gen seed").digest(), "big") & MAX_SEED
