"""Foreign text made safe to print: nothing in a message can move the cursor, change colour or reorder the line."""

LIMIT = 60
"""Characters of a value that a message shows."""


def escaped(text: str) -> str:
    """`text` with every character that does not print (controls, bidi marks, lone surrogates) as a backslash escape."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(text: str, limit: int = LIMIT) -> str:
    """The first `limit` characters of `text`, escaped, in double quotes."""
    head = text[:limit].replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped(head)}{"…" if len(text) > limit else ""}"'
