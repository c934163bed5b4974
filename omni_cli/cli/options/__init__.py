"""The flags of the commands, as annotated types; a module per panel of the help."""
