import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.domain.config_views import Difference, ExportView, FieldDifference, ImportView
from gateway.domain.errors import BadRequest
from gateway.domain.settings import ExpiringRecords
from tests.commands.runner import Control, run
from tests.commands.samples import HOSTILE

TEXT = "format = 1\n\n[groups.home]\n"
FOUND = ImportView(
    applied=False,
    differences=[
        Difference(action="added", noun="group", name="work", fields=[]),
        Difference(
            action="changed",
            noun="channel",
            name="up",
            fields=[
                FieldDifference(field="priority", before="1", after="2"),
                FieldDifference(field="note", before='"x"', after=""),
                FieldDifference(field="weight", before="", after="5"),
            ],
        ),
        Difference(action="kept", noun="token", name="laptop", fields=[]),
    ],
    notes=["set THIS"],
    expiring=ExpiringRecords(),
    keys={},
)
REMOVING = replace(FOUND, differences=[Difference(action="removed", noun="token", name="laptop", fields=[])])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tollkeeper.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def exporting() -> Control:
    return Control({"GET /config": ExportView(text=TEXT, notes=["tokens are without their keys"])})


def test_an_export_goes_to_stdout_as_it_is_and_its_notes_do_not() -> None:
    for args in (("config", "export"), ("config", "export", "-")):
        ran = run(*args, control=exporting())
        assert (ran.out, ran.err) == (TEXT, "note: tokens are without their keys\n")
    assert run("config", "export", "--json", control=exporting()).json["text"] == TEXT


@pytest.mark.parametrize("name", ["x.yaml", "x.yml", "x.json"])
def test_an_export_does_not_write_toml_into_a_file_of_another_kind(tmp_path: Path, name: str) -> None:
    ran = run("config", "export", str(tmp_path / name), control=exporting())
    assert (ran.code, list(tmp_path.iterdir())) == (Exit.USAGE, [])
    assert "the configuration is written as TOML; name it x.toml" in ran.err


def test_a_dry_run_shows_what_would_change(file: Path) -> None:
    ran = run("config", "import", str(file), "--dry-run", answers={"POST /config": FOUND})
    assert ran.out.splitlines() == [
        "+ group work",
        "~ channel up",
        "    priority = 1 → 2",
        '    note = "x" → (default)',
        "    weight = 5",
    ]
    assert ran.err == "note: set THIS\n2 changes to make; 1 not in the file, left unchanged\n"
    assert ran.bodies == [{"text": TEXT, "apply": False, "prune": False, "origin": "tollkeeper"}]


def test_an_import_is_looked_at_and_then_made(file: Path) -> None:
    control = Control({"POST /config": replace(FOUND, applied=True, keys={"phone": "sk-tk-new"})})
    ran = run("config", "import", str(file), control=control)
    assert [body["apply"] for body in control.bodies] == [False, True]
    assert ran.out.endswith("phone  sk-tk-new\n")
    assert "shown only this once" in ran.err
    assert "2 changes made" in ran.err


def test_what_would_be_removed_needs_a_confirmation(file: Path) -> None:
    control = Control({"POST /config": REMOVING})
    ran = run("config", "import", str(file), "--prune", control=control)
    assert (ran.code, [body["apply"] for body in control.bodies]) == (Exit.USAGE, [False])
    assert "- token laptop" in ran.out
    ran = run("config", "import", str(file), "--prune", "--yes", control=control)
    assert (ran.code, control.bodies[-1]) == (0, {"text": TEXT, "apply": True, "prune": True, "origin": "tollkeeper"})


def test_records_are_deleted_only_if_confirmed(file: Path) -> None:
    control = Control({"POST /config": replace(FOUND, expiring=ExpiringRecords(records=6596, days=21))})
    ran = run("config", "import", str(file), control=control)
    assert (ran.code, [body["apply"] for body in control.bodies]) == (Exit.USAGE, [False])
    assert "6,596 records of 21 days are deleted for good" in ran.err
    assert run("config", "import", str(file), "--yes", control=control).code == 0
    assert control.bodies[-1]["apply"]
    ran = run("config", "import", str(file), "--dry-run", control=control)
    assert (ran.code, "6,596 records of 21 days are deleted for good" in ran.err) == (0, True)


def test_json_is_one_value(file: Path) -> None:
    ran = run("config", "import", str(file), "--json", answers={"POST /config": FOUND})
    assert set(ran.json) == {"applied", "differences", "notes", "expiring", "keys"}
    assert ran.json["differences"][0] == {"what": "added", "noun": "group", "name": "work", "fields": []}


def test_a_text_from_stdin() -> None:
    ran = run("config", "import", "-", "--dry-run", answers={"POST /config": FOUND}, stdin=TEXT)
    assert ran.bodies[0]["text"] == TEXT


def test_a_refusal_says_where(file: Path) -> None:
    ran = run("config", "import", str(file), answers={"POST /config": BadRequest("channels.up.prio: is unknown")})
    assert (ran.code, "channels.up.prio: is unknown" in ran.err) == (Exit.USAGE, True)


def test_strangers_names_are_made_harmless(file: Path) -> None:
    field = FieldDifference(field=HOSTILE, before=HOSTILE, after=HOSTILE)
    bad = replace(
        FOUND, differences=[Difference(action="added", noun="group", name=HOSTILE, fields=[field])], notes=[HOSTILE]
    )
    ran = run("config", "import", str(file), "--dry-run", answers={"POST /config": bad})
    assert not set("\x1b\x07\x9b\u202e") & set(ran.out + ran.err)


YAML = """
defaults: &defaults {api_key: os.environ/KEY}
model_list:
  - model_name: m
    litellm_params: {<<: *defaults, model: openai/x, released: 2026-01-01}
"""


def test_litellm_s_yaml_goes_out_as_json(file: Path) -> None:
    file.write_text(YAML, encoding="utf-8")
    ran = run("config", "import", str(file), "--from", "litellm", answers={"POST /config": FOUND})
    (shown, done) = ran.bodies
    assert (shown["origin"], done["origin"], done["apply"]) == ("litellm", "litellm", True)
    params = json.loads(done["text"])["model_list"][0]["litellm_params"]
    assert params == {"api_key": "os.environ/KEY", "model": "openai/x", "released": "2026-01-01"}


def test_a_list_of_channels_goes_out_as_it_is(file: Path) -> None:
    file.write_text("[]", encoding="utf-8")
    ran = run("config", "import", str(file), "--from", "one-api", "--dry-run", answers={"POST /config": FOUND})
    assert (ran.bodies[0]["origin"], ran.bodies[0]["text"]) == ("one-api", "[]")


def test_numbers_that_json_lacks_go_out_as_null(file: Path) -> None:
    file.write_text("a: .nan\nb: [.inf, -.inf, 1.5, {c: .NaN}]\n", encoding="utf-8")
    ran = run("config", "import", str(file), "--from", "litellm", "--dry-run", answers={"POST /config": FOUND})
    assert json.loads(ran.bodies[0]["text"]) == {"a": None, "b": [None, None, 1.5, {"c": None}]}


def test_an_empty_yaml_file_goes_out_as_null(file: Path) -> None:
    file.write_text("# nothing yet\n", encoding="utf-8")
    ran = run("config", "import", str(file), "--from", "litellm", "--dry-run", answers={"POST /config": FOUND})
    assert ran.bodies[0]["text"] == "null"


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_not_part_of_the_text(file: Path, coding: str) -> None:
    file.write_text("format = 1\n", encoding=coding)
    ran = run("config", "import", str(file), "--dry-run", answers={"POST /config": FOUND})
    assert ran.bodies[0]["text"] == "format = 1\n"


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 12))
DEEP = "[" * 100_000 + "]" * 100_000
STAIRS = "".join(" " * level + "a:\n" for level in range(1_300))
MIXED = "{a: [" * 40_000


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param(BOMB, "more than 200,000 values", id="aliases"),
        pytest.param(MERGED, "more than 200,000 values", id="merges"),
        pytest.param("- x\n" * 200_001, "more than 200,000 values", id="many"),
        pytest.param(DEEP, "nest", id="deep"),
        pytest.param(STAIRS, "nest", id="stairs"),
        pytest.param(MIXED, "nest", id="mixed"),
        pytest.param("&a [*a]", "contains itself", id="loop"),
        pytest.param("&a {b: *a}", "contains itself", id="loop of tables"),
        pytest.param("? [a, b]\n: c", "not valid YAML", id="list as key"),
        pytest.param("{? {a: b}: c}", "not valid YAML", id="table as key"),
        pytest.param("? [a]\n: x", "not valid YAML", id="list as key"),
        pytest.param("a: [", "not valid YAML", id="open"),
        pytest.param(f"a: 1{':59' * 200}.5", "too large", id="float"),
        pytest.param("a: !!python/object/apply:os.system [ls]", "not valid YAML", id="program"),
        pytest.param("\x00", "control characters are not allowed", id="control character"),
    ],
)
def test_a_file_that_is_not_yaml_or_more_than_it_seems_is_refused_soon(file: Path, text: str, why: str) -> None:
    file.write_text(text, encoding="utf-8")
    control, began = Control({}), time.process_time()
    ran = run("config", "import", str(file), "--from", "litellm", control=control)
    assert (ran.code, why in ran.err, time.process_time() - began < 5) == (Exit.USAGE, True, True), ran.err
    assert (control.asked, ran.err.count("\n")) == ([], 1)


def test_an_export_asks_before_it_replaces_another_text(tmp_path: Path) -> None:
    path = tmp_path / "out.toml"
    path.write_text("mine", encoding="utf-8")
    ran = run("config", "export", str(path), control=exporting())
    assert (ran.code, path.read_text(encoding="utf-8")) == (Exit.USAGE, "mine")
    assert "add --yes" in ran.err
    assert "exists and has other content. Replace it?" in ran.err
    for args in (("--yes",), ("--force",), ()):  # the last one finds nothing to change
        assert run("config", "export", str(path), *args, control=exporting()).code == 0
    assert path.read_text(encoding="utf-8") == TEXT
