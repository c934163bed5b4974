"""`omni-gen bench` without its flags: from settings to a report, with everything that was opened given back."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from omni_cli.bench.arms import PLAIN, Arm, Spec, config_of
from omni_cli.bench.conduct import Measured, Say, conduct
from omni_cli.bench.engine_arm import EngineArm, OpenSession
from omni_cli.bench.load import Counts
from omni_cli.bench.machine import describe
from omni_cli.bench.plain_arm import PlainArm
from omni_cli.bench.report import Report, Settings, summarize
from omni_cli.bench.verify import verify
from omni_cli.config import RunConfig
from omni_cli.request import GenerationRequest


@dataclass(frozen=True, slots=True)
class Outcome:
    """The report, and what it was made from: for the chart and the trace."""

    report: Report
    measured: Measured


def run_bench(
    config: RunConfig,
    fields: GenerationRequest,
    specs: Sequence[Spec],
    counts: Counts,
    folder: Path,
    open_session: OpenSession,
    say: Say,
) -> Outcome:
    """Measure the arms `specs` on requests with the values of `fields`; each arm writes into its own folder in `folder`.

    Raises EngineError if an arm cannot be loaded or a request fails, UsageError if the model cannot take the requests.
    """
    with ExitStack() as stack:
        arms = _enter(stack, config, specs, folder, open_session)
        measured = conduct(arms, fields, counts, config.engine.batch_size, say)
        say("comparing the outputs")
        engine = next(arm for arm in arms if isinstance(arm, EngineArm))
        settings = _settings(config, fields, engine, measured)
        checks = verify(arms, measured.requests, settings.dtype)
    return Outcome(summarize(measured, checks, describe(), settings), measured)


def _enter(
    stack: ExitStack, config: RunConfig, specs: Sequence[Spec], folder: Path, open_session: OpenSession
) -> list[Arm]:
    """The arms, entered, in the order of `specs`; but the plain loop loads last: its requests are planned by an engine arm."""
    arms: list[Arm] = []
    for spec in specs:
        if spec.name != PLAIN:
            arm = EngineArm(spec, config_of(spec, config, folder / spec.name), open_session)
            arms.append(stack.enter_context(arm))
    engine = next(arm for arm in arms if isinstance(arm, EngineArm))
    if any(spec.name == PLAIN for spec in specs):
        plain = PlainArm(config.model, folder / PLAIN, engine.plan, lambda: engine.card)
        arms.append(stack.enter_context(plain))
    return arms


def _settings(config: RunConfig, fields: GenerationRequest, engine: EngineArm, measured: Measured) -> Settings:
    """What was run, with the defaults filled in that planning filled in."""
    planned = engine.plan(measured.requests)[0].request
    ready = measured.ready[engine.spec.name]
    plain = measured.ready.get(PLAIN)
    return Settings(
        model=config.model.model,
        pipeline=ready.pipeline,
        device=ready.device,
        device_name=plain.device_name if plain else "",
        dtype=ready.dtype,
        request=GenerationRequest(
            num_inference_steps=planned.num_inference_steps,
            guidance_scale=planned.guidance_scale,
            negative_prompt=planned.negative_prompt,
        ),
        width=planned.width or 0,
        height=planned.height or 0,
        num_frames=planned.num_frames or 1,
        format=planned.format or "",
        requests=len(measured.requests),
        rounds=len(measured.rounds[engine.spec.name]),
        batch_size=config.engine.batch_size,
        device_postprocess=config.engine.transport.enable_device_postprocess,
    )
