"""Training and evaluation of the demo model: `python -m tools.demo_model`, `python -m tools.demo_model.evaluate`."""
