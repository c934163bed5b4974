"""The groups in which the help shows the flags of a command, in this order."""

PROMPTS = "Prompts"
MODEL = "Model"
OUTPUT = "Output"
DEFAULTS = "Defaults for requests"
SPEED = "Speed"
FAULTS = "Faults"
VIEW = "View"
TUNING = "Tuning of the model"
ADVANCED = "Advanced"

PANELS = (PROMPTS, MODEL, OUTPUT, DEFAULTS, SPEED, FAULTS, VIEW, TUNING, ADVANCED)
