"""Run `omni-gen`: what the installed command and `python -m omni_cli` start."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line. Exit code 3 if it cannot be imported because a required package is missing or too old."""
    try:
        from omni_cli.cli.app import main as run_command  # imports typer, rich and msgspec, which may be missing
    except Exception:
        from omni_cli.dependencies import describe_unmet, unmet_requirements

        message = describe_unmet(unmet_requirements(model=False))
        if not message:
            raise
        print(f"omni-gen: {message}", file=sys.stderr)  # noqa: T201
        sys.exit(3)
    run_command()


if __name__ == "__main__":
    main()
