"""The memory of this process."""

from omni_cli.bench.machine import describe_machine, peak_bytes, reset_peak, resident_bytes


def test_a_description_names_cores_and_packages() -> None:
    facts = describe_machine()
    assert {"system", "processor", "cores", "python", "torch", "diffusers"} <= facts.keys()


def test_the_peak_is_that_since_the_reset() -> None:
    block = bytearray(b"x") * (64 << 20)
    del block
    before = reset_peak()
    if before is None:
        return  # the system cannot reset it
    assert peak_bytes() < before + (32 << 20)
    block = bytearray(b"x") * (64 << 20)
    assert peak_bytes() > before + (32 << 20)
    assert (resident_bytes() or 0) > len(block)
