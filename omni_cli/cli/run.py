"""`omni-gen run PROMPTS`: render every request of a file."""

import typer

from omni_cli.cli import options as o


def run(
    prompts: o.Prompts,
    config: o.Config = None,
    model: o.Model = "demo",
    revision: o.Revision = None,
    variant: o.Variant = None,
    pipeline: o.Pipeline = None,
    model_config: o.ModelConfigDir = None,
    dtype: o.Dtype = "auto",
    device: o.Device = "auto",
    trust_remote_code: o.TrustRemoteCode = False,
    async_output: o.AsyncOutput = True,
    batch_size: o.BatchSize = 1,
    workers: o.Workers = 1,
    executor: o.ExecutorOption = o.Executor.LOCAL,
    device_postprocess: o.DevicePostprocess = None,
    video_output_transport: o.TransportJson = None,
    deploy_config: o.DeployConfig = None,
    max_restarts: o.MaxRestarts = 3,
    max_inflight_bytes: o.MaxInflightBytes = "1G",
    threads: o.Threads = None,
    writers: o.Writers = None,
    fail_fast: o.FailFast = False,
    seed: o.Seed = 0,
    negative_prompt: o.NegativePrompt = None,
    height: o.Height = None,
    width: o.Width = None,
    num_frames: o.NumFrames = None,
    fps: o.Fps = None,
    num_inference_steps: o.Steps = None,
    guidance_scale: o.Guidance = None,
    guidance_scale_2: o.Guidance2 = None,
    true_cfg_scale: o.TrueCfg = None,
    strength: o.Strength = None,
    image: o.Image = None,
    last_image: o.LastImage = None,
    mask: o.Mask = None,
    video: o.Video = None,
    num_outputs: o.NumOutputs = None,
    format_: o.Format = None,
    limit: o.Limit = None,
    shard_: o.Shard = None,
    output_dir: o.OutputDir = o.OUTPUT_DIR,
    overwrite: o.Overwrite = False,
    name_template: o.NameTemplate = "{id}",
    no_metadata: o.NoMetadata = False,
    png_compression: o.PngCompression = 1,
    quality: o.Quality = 95,
    crf: o.Crf = 18,
    encoder_preset: o.EncoderPreset = "veryfast",
    encoder: o.EncoderOption = o.Encoder.AUTO,
    progress: o.ProgressOption = o.Progress.AUTO,
    print_: o.PrintOption = None,
    trace: o.Trace = None,
    log_file: o.LogFile = None,
) -> None:
    """Render every request of a prompt file. The same command again renders only what is missing."""
    # Imported when a run is wanted: --help stays fast.
    from omni_cli.cli.defaults import checked_defaults
    from omni_cli.cli.perform import perform
    from omni_cli.cli.settings import byte_count, shard, transport
    from omni_cli.config import EngineConfig, ModelConfig, OutputConfig, RunConfig, output_timeout

    defaults = checked_defaults(
        negative_prompt=negative_prompt,
        height=height,
        width=width,
        num_frames=num_frames,
        fps=fps,
        num_inference_steps=num_inference_steps,
        guidance_scale=guidance_scale,
        guidance_scale_2=guidance_scale_2,
        true_cfg_scale=true_cfg_scale,
        strength=strength,
        image=image,
        last_image=last_image,
        mask=mask,
        video=video,
        num_outputs=num_outputs,
        format=format_,
    )
    settings = RunConfig(
        model=ModelConfig(
            model=model,
            revision=revision,
            variant=variant,
            dtype=dtype,
            device=device,
            pipeline=pipeline,
            config=model_config,
            trust_remote_code=trust_remote_code,
        ),
        engine=EngineConfig(
            executor=executor.value,
            async_output=async_output,
            workers=workers,
            max_restarts=max_restarts,
            batch_size=batch_size,
            max_inflight_bytes=byte_count(max_inflight_bytes, "--max-inflight-bytes"),
            output_timeout=output_timeout(),
            transport=transport(device_postprocess, video_output_transport, deploy_config),
            threads=threads,
        ),
        output=OutputConfig(
            output_dir=str(output_dir),
            name_template=name_template,
            overwrite=overwrite,
            metadata=not no_metadata,
            png_compression=png_compression,
            quality=quality,
            crf=crf,
            encoder=encoder.value,
            encoder_preset=encoder_preset,
            writers=writers,
        ),
        defaults=defaults,
        seed=seed,
        limit=limit,
        shard=shard(shard_),
        fail_fast=fail_fast,
    )
    raise typer.Exit(
        perform(prompts, settings, progress.value, None if print_ is None else print_.value, trace, log_file)
    )
