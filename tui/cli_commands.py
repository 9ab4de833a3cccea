"""CLI commands: the command line that does the same as a form; unchanged options are left out."""

import shlex


def cli_command(*words: str, **options: str | None) -> str:
    """Returns words and options quoted for a shell; options that are None are left out."""
    parts = [shlex.quote(word) for word in words]
    for name, value in options.items():
        if value is not None:
            parts += [f"--{name.replace('_', '-')}", shlex.quote(value)]
    return " ".join(parts)
