"""`python -m omni_cli` is `omni-gen`."""

from omni_cli.cli.app import main

if __name__ == "__main__":
    main()
