"""`omni-gen run PROMPTS`: render every request of a file."""

import typer

from omni_cli.cli.options import defaults as d
from omni_cli.cli.options import engine as e
from omni_cli.cli.options import model as m
from omni_cli.cli.options import output as o
from omni_cli.cli.options import tuning as t
from omni_cli.cli.options import view as v


def run(
    prompts: d.Prompts,
    config: e.Config = None,
    model: m.Model = "demo",
    revision: m.Revision = None,
    variant: m.Variant = None,
    pipeline: m.Pipeline = None,
    model_config: m.ModelConfigDir = None,
    dtype: m.Dtype = "auto",
    device: m.Device = "auto",
    custom_pipeline: m.CustomPipeline = None,
    trust_remote_code: m.TrustRemoteCode = False,
    cards: m.Cards = None,
    scheduler: t.Scheduler = None,
    scheduler_config: t.SchedulerConfig = None,
    flow_shift: t.FlowShift = None,
    lora: t.Lora = None,
    cache: t.CacheOption = None,
    cache_config: t.CacheConfig = None,
    quantization: t.Quantization = None,
    quantization_config: t.QuantizationConfig = None,
    quantize: t.Quantize = None,
    component: t.Component = None,
    layerwise_casting: t.LayerwiseCasting = None,
    offload: t.OffloadOption = t.Offload.NONE,
    attention_backend: t.AttentionBackend = None,
    vae_tiling: t.VaeTiling = False,
    vae_slicing: t.VaeSlicing = False,
    compile_: t.Compile = False,
    async_output: e.AsyncOutput = True,
    chunked_decode: e.ChunkedDecode = True,
    step_execution: e.StepExecution = False,
    stream: e.Stream = False,
    preview_every: e.PreviewEvery = 0,
    batch_size: e.BatchSize = "1",
    lookahead: e.Lookahead = 1000,
    workers: e.Workers = 1,
    executor: e.ExecutorOption = e.Executor.LOCAL,
    device_postprocess: e.DevicePostprocess = None,
    video_output_transport: e.TransportJson = None,
    deploy_config: e.DeployConfig = None,
    max_restarts: e.MaxRestarts = 3,
    forward_timeout: e.ForwardTimeout = None,
    max_inflight_bytes: e.MaxInflightBytes = "1G",
    prompt_cache: e.PromptCache = "64M",
    threads: e.Threads = None,
    interpolator: e.InterpolatorFile = None,
    runner: e.Runner = e.DIFFUSERS_RUNNER,
    writers: e.Writers = None,
    fail_fast: e.FailFast = False,
    keep_invalid: e.KeepInvalid = False,
    fail_on_constant: e.FailOnConstant = False,
    seed: d.Seed = 0,
    negative_prompt: d.NegativePrompt = None,
    height: d.Height = None,
    width: d.Width = None,
    num_frames: d.NumFrames = None,
    fps: d.Fps = None,
    num_inference_steps: d.Steps = None,
    guidance_scale: d.Guidance = None,
    guidance_scale_2: d.Guidance2 = None,
    true_cfg_scale: d.TrueCfg = None,
    strength: d.Strength = None,
    image: d.Image = None,
    last_image: d.LastImage = None,
    mask: d.Mask = None,
    video: d.Video = None,
    prompt_embeds: d.PromptEmbeds = None,
    latents: d.Latents = None,
    num_outputs: d.NumOutputs = None,
    interpolate: d.Interpolate = None,
    format_: d.Format = None,
    limit: d.Limit = None,
    shard_: d.Shard = None,
    output_dir: o.OutputDir = o.OUTPUT_DIR,
    overwrite: o.Overwrite = False,
    name_template: o.NameTemplate = "{id}",
    no_metadata: o.NoMetadata = False,
    keep_partial: o.KeepPartial = False,
    png_compression: o.PngCompression = 1,
    quality: o.Quality = 95,
    codec: o.Codec = None,
    pix_fmt: o.PixFmt = None,
    crf: o.Crf = 18,
    encoder_preset: o.EncoderPreset = "veryfast",
    encoder: o.EncoderOption = o.Encoder.AUTO,
    keep_previews: o.KeepPreviews = False,
    no_disk_check: o.NoDiskCheck = False,
    disk_wait: o.DiskWait = 300.0,
    dry_run: v.DryRun = False,
    progress: v.ProgressOption = v.Progress.AUTO,
    print_: v.PrintOption = None,
    trace: v.Trace = None,
    log_file: v.LogFile = None,
) -> None:
    """Render every request of a prompt file. The same command again renders only what is missing."""
    given = dict(locals())
    # Imported when a run is wanted: --help stays fast.
    from omni_cli.cli.perform import perform
    from omni_cli.cli.settings import run_config

    data = None if print_ is None else print_.mode
    if dry_run:
        from omni_cli.cli.dry import dry_run as plan

        raise typer.Exit(plan(prompts, run_config(given), data))
    raise typer.Exit(perform(prompts, run_config(given), progress.value, data, trace, log_file))
