"""The program that makes the demo model's weights from nothing: `python -m omni_cli.models.demo.train`."""
