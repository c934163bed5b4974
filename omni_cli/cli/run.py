"""`omni-gen run PROMPTS`: render every request of a file."""

from functools import partial

import typer

from omni_cli.cli.help_text import HelpAll, HelpCommand
from omni_cli.cli.options import engine_options as e
from omni_cli.cli.options import model_options as m
from omni_cli.cli.options import output_options as o
from omni_cli.cli.options import request_options as d


class RunCommand(HelpCommand):
    """`run`, whose help is read in a minute."""

    first_flags = (
        *("prompts", "prompt_texts", "limit", "matrix", "model", "device", "dtype", "lora"),
        *(
            "output_dir",
            "name_template",
            "layout",
            "overwrite",
            "seed",
            "negative_prompt",
            "height",
            "width",
            "num_frames",
            "fps",
        ),
        *("num_inference_steps", "guidance_scale", "image", "num_outputs", "format_", "batch_size", "workers"),
        *("fail_fast", "fail_on_nsfw", "forward_timeout", "dry_run", "progress", "print_", "report", "config"),
    )


def run(
    context: typer.Context,
    prompts: d.OptionalPrompts = None,
    prompt_texts: d.PromptTexts = None,
    help_all: HelpAll = False,
    config: e.Config = None,
    input_format: d.InputFormat = None,
    input_encoding: d.InputEncoding = None,
    field: d.Field = None,
    extra_columns: d.ExtraColumns = d.ExtraColumnsChoice.ERROR,
    prompt_syntax: d.PromptSyntaxOption = d.PromptSyntaxChoice.AUTO,
    lora_dir: d.LoraDir = None,
    matrix: d.Matrix = None,
    repeat: d.Repeat = 1,
    expand: d.Expand = None,
    wildcards: d.WildcardFolder = None,
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
    scheduler: m.Scheduler = None,
    scheduler_config: m.SchedulerConfig = None,
    flow_shift: m.FlowShift = None,
    lora: m.Lora = None,
    cache: m.CacheOption = None,
    cache_config: m.CacheConfig = None,
    quantization: m.Quantization = None,
    quantization_config: m.QuantizationConfig = None,
    quantize: m.Quantize = None,
    component: m.Component = None,
    layerwise_casting: m.LayerwiseCasting = None,
    offload: m.OffloadOption = m.Offload.NONE,
    attention_backend: m.AttentionBackend = None,
    vae_tiling: m.VaeTiling = False,
    vae_slicing: m.VaeSlicing = False,
    compile_: m.Compile = False,
    async_output: e.AsyncOutput = True,
    chunked_decode: e.ChunkedDecode = True,
    step_execution: e.StepExecution = False,
    stream: e.Stream = False,
    preview_every: e.PreviewEvery = 0,
    batch_size: e.BatchSize = "1",
    lookahead: e.Lookahead = 1000,
    workers: e.Workers = "auto",
    executor: e.ExecutorOption = e.ExecutorChoice.LOCAL,
    device_postprocess: e.DevicePostprocess = None,
    video_output_transport: e.TransportJson = None,
    deploy_config: e.DeployConfig = None,
    max_restarts: e.MaxRestarts = 3,
    forward_timeout: e.ForwardTimeout = "auto",
    stop_timeout: e.StopTimeout = None,
    max_inflight_bytes: e.MaxInflightBytes = "1G",
    prompt_cache: e.PromptCache = "64M",
    threads: e.Threads = None,
    interpolator: e.InterpolatorFile = None,
    runner: e.Runner = e.DIFFUSERS_RUNNER,
    writers: e.Writers = None,
    fail_fast: e.FailFast = False,
    keep_invalid: e.KeepInvalid = False,
    fail_on_constant: e.FailOnConstant = False,
    fail_on_nsfw: e.FailOnNsfw = False,
    seed: d.Seed = 0,
    negative_prompt: d.NegativePrompt = None,
    height: d.Height = None,
    width: d.Width = None,
    num_frames: d.NumFrames = None,
    seconds: d.Seconds = None,
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
    keep_old: o.KeepOld = False,
    replace_changed: o.ReplaceChanged = False,
    name_template: o.NameTemplate = "{id}",
    layout: o.Layout = None,
    results: o.Results = None,
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
    dry_run: o.DryRun = False,
    progress: o.ProgressOption = o.Progress.AUTO,
    print_: o.PrintOption = None,
    trace: o.Trace = None,
    report: o.Report = False,
    report_live: o.ReportLive = False,
    log_file: o.LogFile = None,
) -> None:
    """Render every request of a prompt file, or of --prompt. The same command again renders only what is missing."""
    parameters = dict(locals())
    # Imported here: --help stays fast.
    from omni_cli.cli.prompt_arguments import open_prompts
    from omni_cli.cli.run_config import check_model, read_options, run_config
    from omni_cli.prompts.expansion import Expander

    with e.naming_config_places(context):
        settings, data = run_config(parameters), o.print_mode(print_)
        options = read_options(input_format, input_encoding, field, extra_columns.value, settings.output.layout)
        expander = Expander(settings)
        source = open_prompts(prompts, prompt_texts, settings, options, expander, streaming=not dry_run)
    check_model(settings)
    if dry_run:
        from omni_cli.cli.dry_run import show_plan

        code = show_plan(source, settings, data)
    else:
        from omni_cli.cli.run_with_view import run_with_view

        render = partial(run_with_view, source, settings, progress.value, data, trace, log_file)
        quiet = progress in (o.Progress.JSON, o.Progress.NONE)
        if report or report_live:
            from omni_cli.cli.run_report import run_and_report

            code = run_and_report(render, output_dir, live=report_live, quiet=quiet)
        else:
            code = render()
    raise typer.Exit(code)
