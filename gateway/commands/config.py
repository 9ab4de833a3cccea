"""``config``: exports the configuration to a file, and imports such a file or one of another gateway."""

import stat
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click
import msgspec

from gateway.commands import stdin
from gateway.commands.base import Noun
from gateway.commands.options import confirm, yes_option
from gateway.commands.output import notify, out, out_json, out_once, plain_lines, require_stdout, wants_json
from gateway.commands.session import run
from gateway.domain.config_views import ConfigOrigin, Difference, ImportView
from gateway.domain.human_values import count_text
from gateway.domain.text import plain
from gateway.runfile import replace_file

MARKS = {"added": "+", "changed": "~", "removed": "-"}
COLOURS = {"added": "green", "changed": "yellow", "removed": "red"}


@click.group(cls=Noun, bare="export")
def config() -> None:
    """The whole configuration as one file, without secrets: settings, groups, channels, tokens, prices."""


@config.command(
    "export",
    examples=["tollkeeper config export tollkeeper.toml", "tollkeeper config export | git diff --no-index ..."],
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@yes_option("--force", text="Replace an existing file without asking.")
def export(file: str | None) -> None:
    """Write the configuration to FILE (mode 0600, replaced atomically), or to stdout.

    The same configuration always gives the same text. Keys of channels become references to environment variables;
    tokens are written without their keys.
    """
    if file is not None and Path(file).suffix.lower() in (".json", ".yaml", ".yml"):
        raise click.BadParameter(f"the configuration is written as TOML; name it {Path(file).stem}.toml")
    exported = run(lambda client: client.export_config())
    if wants_json():
        out_json(exported)
    elif file in (None, "-"):
        out(plain_lines(exported.text), end="")
    if file is not None and file != "-":
        path = Path(file)
        if path.is_file() and path.read_bytes() != exported.text.encode():  # neither a device nor a pipe
            confirm(f"{path} exists and has other content. Replace it?")
        _write_private(file, exported.text)
        notify(f"Configuration written to {file}.")
    notify(*(f"note: {note}" for note in exported.notes))


def _write_private(file: str, text: str) -> None:
    """Write a text to a file atomically, with mode 0600. Raises OSError with the file's name.

    The target of a symlink is replaced, and the link stays. Devices and pipes are written to directly.
    """
    path = Path(file)
    try:
        old_mode = path.stat().st_mode if path.exists() else None
        if old_mode is not None and not stat.S_ISREG(old_mode):
            path.write_text(text, encoding="utf-8")
            return
        replace_file(path.resolve(), text.encode(), durable=True)
    except OSError as error:
        error.filename = file  # it may have the name of the temporary file, or none
        raise
    if old_mode is not None and sys.platform != "win32" and old_mode & 0o077:
        notify(f"note: other users could read or write {file} (mode {stat.S_IMODE(old_mode):o}); its mode is now 0600")


@config.command(
    "import",
    examples=[
        "tollkeeper config import tollkeeper.toml --dry-run",
        "tollkeeper config import tollkeeper.toml --prune",
        "tollkeeper config import config.yaml --from litellm --dry-run",
        "tollkeeper config import channels.json --from new-api",
    ],
)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.option(
    "--from",
    "origin",
    type=click.Choice([origin.value for origin in ConfigOrigin]),
    default=ConfigOrigin.OURS.value,
    show_default=True,
    help="Format of the file: LiteLLM's config.yaml, or a JSON list of channels from one-api or new-api.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--prune", is_flag=True, help="Also remove everything that is not in the file.")
@yes_option()
def import_(file: str, origin: str, *, dry_run: bool, prune: bool) -> None:
    """Apply the configuration in FILE, all of it or nothing.

    What the file names is created, or changed to match the file; everything else stays. A file with an unknown or
    invalid value is rejected, and the error says where it is. New tokens get keys, which are shown only once.

    From another gateway's file, everything that Tollkeeper supports is imported, and the rest is listed.
    """
    source = ConfigOrigin(origin)
    if source is ConfigOrigin.LITELLM:
        text = _yaml_as_json(stdin.read_text(file, 1 << 20, "a configuration"))  # YAML is slow to read
    else:
        text = stdin.read_text(file, 4 << 20, "a configuration")  # four times what thousands of models and prices need
    result = run(
        lambda client: client.import_config(text, apply=False, prune=prune, origin=source),
        create=not dry_run,
        needs_data=False,
    )
    if not wants_json():
        _print_differences(result.differences)
    if not dry_run:
        require_stdout()
        if any(difference.action == "removed" for difference in result.differences):
            confirm("Remove what is marked with '-'?")
        if result.expiring.records:
            confirm(f"With keep_days as in the file, {result.expiring.text} are deleted for good. Import it?")
        result = run(lambda client: client.import_config(text, apply=True, prune=prune, origin=source))
    _report(result)


def _yaml_as_json(text: str) -> str:
    """Returns YAML as JSON. Dates become texts; ``.nan`` and ``.inf``, which JSON does not have, become null."""
    import yaml  # only LiteLLM's files need it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        if _count_values(root, {}) > 200_000:
            raise click.BadParameter("the file contains more than 200,000 values")
        document = None if root is None else loader.construct_document(root)  # an empty file has no node
        return msgspec.json.encode(document, enc_hook=str).decode()
    except yaml.YAMLError as exc:
        raise click.BadParameter(f"the file is not valid YAML: {plain(' '.join(str(exc).split()), 300)}") from exc
    except (RecursionError, ValueError, TypeError, OverflowError) as exc:
        problem = "contains itself or is nested too deeply, or a key that is not text"
        raise click.BadParameter(f"the file has a value that {problem} ({plain(str(exc), 100)})") from exc


def _count_values(node: Any, counts: dict[int, int]) -> int:
    """Returns the number of values in a YAML node once its aliases are expanded. ``counts`` are those known already."""
    if id(node) not in counts:
        counts[id(node)] = 1  # until it is known, for a node that contains itself
        parts = node.value if isinstance(getattr(node, "value", ""), list) else ()
        inner_nodes = chain.from_iterable(part if isinstance(part, tuple) else (part,) for part in parts)
        counts[id(node)] = 1 + sum(_count_values(inner, counts) for inner in inner_nodes)
    return counts[id(node)]


def _print_differences(differences: Sequence[Difference]) -> None:
    for difference in differences:
        if difference.action in MARKS:
            line = f"{MARKS[difference.action]} {difference.noun} {plain(difference.name, 80)}".rstrip()
            out(click.style(line, fg=COLOURS[difference.action]))
            for field in difference.fields if difference.action != "removed" else ():
                before = f"{plain(field.before, 300)} → " if field.before else ""
                out(f"    {plain(field.field, 80)} = {before}{plain(field.after, 300) or '(default)'}")


def _report(result: ImportView) -> None:
    if_lost = "the new tokens were created, but their keys are lost; for new ones: tollkeeper token rotate NAME"
    if result.keys:
        lines = "\n".join(f"{plain(name, 80)}  {key}" for name, key in result.keys.items())
        out_once(result, lines, if_lost)
        notify("Save these keys now: they are shown only this once.")
    elif wants_json():
        out_json(result)
    notify(*(f"note: {note}" for note in result.notes))
    if result.expiring.records and not result.applied:
        notify(f"note: with keep_days as in the file, {result.expiring.text} are deleted for good")
    changes = sum(difference.action != "kept" for difference in result.differences)
    unchanged = len(result.differences) - changes
    unchanged_text = f"; {unchanged} not in the file, left unchanged" if unchanged else ""
    notify(f"{count_text(changes, 'change')} {'made' if result.applied else 'to make'}{unchanged_text}")
