"""The flags of the commands, as annotated types: one file per group of help panels."""
