"""`omni-gen bench` without its flags: load the arms, warm them up, give each a turn in every round, and report.

round 1:  plain     no-async  async          one arm works, the others block in a read or a wait
round 2:  no-async  async     plain          the order rotates, so that no arm always follows the same one
round 3:  async     plain     no-async
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from omni_cli.bench.arms import ARM_SPECS, Arm, ArmSpec, Measurement, Round, ShowLine, arm_config
from omni_cli.bench.engine_arm import EngineArm, OpenSession
from omni_cli.bench.equality import compare_outputs
from omni_cli.bench.machine import describe_machine
from omni_cli.bench.plain_arm import PlainArm
from omni_cli.bench.report import BenchSettings, Report, summarize
from omni_cli.bench.workload import BenchSize, bench_requests, choose_size
from omni_cli.config import RunConfig
from omni_cli.request import GenerationRequest

WARM_UP_CALLS = 2
"""Calls of the warm-up: the first pays for lazy initialisation, the second gives the time per request."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The report, and the measurement behind it for the chart and the trace."""

    report: Report
    measurement: Measurement


def run_bench(
    config: RunConfig,
    fields: GenerationRequest,
    specs: Sequence[ArmSpec],
    size: BenchSize,
    folder: Path,
    open_session: OpenSession,
    show: ShowLine,
) -> Outcome:
    """Measure the arms `specs` on requests with the values of `fields`.

    Each arm writes into a folder of its own in `folder`. Raises EngineError if an arm cannot be loaded or a request
    fails, UsageError if the model cannot take the requests.
    """
    with ExitStack() as stack:
        arms = _open_arms(stack, config, specs, folder, open_session)
        measurement = measure(arms, fields, size, config.engine.batch_size, show)
        show("comparing the outputs")
        engine = next(arm for arm in arms if isinstance(arm, EngineArm))
        settings = _settings(config, engine, measurement)
        comparisons = compare_outputs(arms, measurement.requests, settings.dtype)
    return Outcome(summarize(measurement, comparisons, describe_machine(), settings), measurement)


def _open_arms(
    stack: ExitStack, config: RunConfig, specs: Sequence[ArmSpec], folder: Path, open_session: OpenSession
) -> list[Arm]:
    """Open the arms in the order of `specs`, plain loops last: an engine arm plans their requests."""
    arms: list[Arm] = []
    for spec in specs:
        if spec.is_engine:
            arm = EngineArm.open(spec, arm_config(spec, config, folder / spec.name), open_session)
            arms.append(stack.enter_context(arm))
    engine = next(arm for arm in arms if isinstance(arm, EngineArm))
    for spec in specs:
        if not spec.is_engine:
            plain = PlainArm.open(spec, config.model, folder / spec.name, engine.plan, lambda: engine.card)
            arms.append(stack.enter_context(plain))
    return arms


def measure(
    arms: Sequence[Arm], fields: GenerationRequest, size: BenchSize, batch_size: int, show: ShowLine
) -> Measurement:
    """Load, warm up and measure the open `arms` on requests with the values of `fields`.

    Raises as `run_bench` does.
    """
    loaded = {}
    for arm in arms:
        loaded[arm.spec.name] = arm.load()
        show(f"{arm.spec.name}: model loaded in {loaded[arm.spec.name].seconds:.1f} s")
    seconds_per_request = [_warm_up(arm, fields, batch_size, show) for arm in arms]
    count, rounds = choose_size(size, seconds_per_request, batch_size)
    show(f"{rounds} rounds of {count} requests, about {rounds * count * sum(seconds_per_request):.0f} s")
    turns: dict[str, list[Round]] = {arm.spec.name: [] for arm in arms}
    requests: tuple[GenerationRequest, ...] = ()
    for number in range(rounds):
        requests = bench_requests(fields, count, WARM_UP_CALLS * batch_size + number * count)
        first = number % len(arms)
        for arm in [*arms[first:], *arms[:first]]:
            turns[arm.spec.name].append(arm.run(requests))
        rates = (f"{arm.spec.name} {1 / turns[arm.spec.name][-1].seconds_per_request:.4g}/s" for arm in arms)
        show(f"round {number + 1} of {rounds}: {', '.join(rates)}")
    return Measurement(loaded, turns, requests)


def _warm_up(arm: Arm, fields: GenerationRequest, batch_size: int, show: ShowLine) -> float:
    """Run calls of the size to be measured; return the seconds per request of the last one."""
    size = batch_size if arm.spec.batched else 1
    calls = [arm.run(bench_requests(fields, size, number * size)) for number in range(WARM_UP_CALLS)]
    seconds = calls[-1].seconds_per_request
    show(f"{arm.spec.name}: warm, {seconds:.3g} s per request")
    return seconds


def _settings(config: RunConfig, engine: EngineArm, measurement: Measurement) -> BenchSettings:
    """Return the settings of the requests with the planner's defaults filled in."""
    planned = engine.plan(measurement.requests)[0].request
    loaded = measurement.loaded[engine.spec.name]
    names = [name for name in measurement.loaded if not ARM_SPECS[name].is_engine]
    device_name = measurement.loaded[names[0]].device_name if names else ""
    return BenchSettings(
        model=config.model.model,
        pipeline=loaded.pipeline,
        device=loaded.device,
        device_name=device_name,
        dtype=loaded.dtype,
        request=GenerationRequest(
            num_inference_steps=planned.num_inference_steps,
            guidance_scale=planned.guidance_scale,
            negative_prompt=planned.negative_prompt,
        ),
        width=planned.width or 0,
        height=planned.height or 0,
        num_frames=planned.num_frames or 1,
        format=planned.format or "",
        requests=len(measurement.requests),
        rounds=len(measurement.rounds[engine.spec.name]),
        batch_size=config.engine.batch_size,
        device_postprocess=config.engine.transport.enable_device_postprocess,
    )
