"""`omni-gen schema WHAT`: JSON Schemas of what omni-gen reads and writes, for editors and other programs."""

import json
from enum import StrEnum
from typing import Annotated, Any

import typer


class SchemaTarget(StrEnum):
    """What a schema describes."""

    PROMPTS = "prompts"
    MANIFEST = "manifest"
    EVENTS = "events"


def schema(
    context: typer.Context,
    what: Annotated[SchemaTarget, typer.Argument(help="Prompt files, rows of manifest.jsonl, or --progress json.")],
) -> None:
    """Print a JSON Schema (draft 2020-12): of prompt files, of rows of the manifest, or of the events of a run.

    An editor that knows the schema completes names and marks mistakes.
    """
    typer.echo(schema_text(what, context.find_root().command), nl=False)


def schema_text(what: SchemaTarget, root: Any) -> str:
    """Return the schema of `what` as JSON; `root` is the whole program, whose flags describe fields."""
    return json.dumps(schema_of(what, flag_texts(root)), indent=2, ensure_ascii=False) + "\n"


def schema_of(what: SchemaTarget, texts: dict[str, str]) -> dict[str, Any]:
    """Return the schema of `what`; `texts` describe fields of requests."""
    # Imported here: --help stays fast.
    import msgspec

    from omni_cli.events import AnyEvent
    from omni_cli.prompts.row_schema import DIALECT, prompt_file_schema, with_exact_seed_texts
    from omni_cli.request import Result

    match what:
        case SchemaTarget.PROMPTS:
            return prompt_file_schema(texts)
        case SchemaTarget.MANIFEST:
            generated, title = msgspec.json.schema(Result), "A row of manifest.jsonl"
        case SchemaTarget.EVENTS:
            generated, title = msgspec.json.schema(AnyEvent), "An event of --progress json"
    return {"$schema": DIALECT, "title": title, **_on_one_line(with_exact_seed_texts(generated))}


def flag_texts(root: Any) -> dict[str, str]:
    """Return the help of the flags of `run` by the field that they give a default; `root` is the whole program."""
    return {option.name.rstrip("_"): option.help or "" for option in root.commands["run"].params}


def _on_one_line(value: Any) -> Any:
    """Return `value` with the blanks of every description reduced to single ones."""
    if isinstance(value, list):
        return [_on_one_line(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: " ".join(item.split()) if key == "description" and isinstance(item, str) else _on_one_line(item)
        for key, item in value.items()
    }
