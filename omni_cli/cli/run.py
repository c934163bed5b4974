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
    batch_size: o.BatchSize = "1",
    workers: o.Workers = 1,
    executor: o.ExecutorOption = o.Executor.LOCAL,
    device_postprocess: o.DevicePostprocess = None,
    video_output_transport: o.TransportJson = None,
    deploy_config: o.DeployConfig = None,
    max_restarts: o.MaxRestarts = 3,
    forward_timeout: o.ForwardTimeout = None,
    max_inflight_bytes: o.MaxInflightBytes = "1G",
    threads: o.Threads = None,
    runner: o.Runner = o.DIFFUSERS_RUNNER,
    writers: o.Writers = None,
    fail_fast: o.FailFast = False,
    keep_invalid: o.KeepInvalid = False,
    fail_on_constant: o.FailOnConstant = False,
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
    given = dict(locals())
    # Imported when a run is wanted: --help stays fast.
    from omni_cli.cli.perform import perform
    from omni_cli.cli.settings import run_config

    raise typer.Exit(
        perform(prompts, run_config(given), progress.value, None if print_ is None else print_.mode, trace, log_file)
    )
