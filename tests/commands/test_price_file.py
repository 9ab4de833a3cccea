"""Files of prices, in every form that a spreadsheet or a program writes."""

from pathlib import Path
from typing import Any

import click
import pytest
from msgspec.structs import replace

from gateway.commands.exit_codes import Exit
from gateway.commands.price_set import prices_in
from gateway.domain.price import PriceRule, Tier
from gateway.domain.price_view import PriceNews
from gateway.domain.units import Nanos
from tests.commands.runner import Control, run
from tests.commands.samples import PRICE

M = 1_000_000_000
TWO = {"a": {"input": 2_500_000_000, "output": 10 * M}, "b/c": {"input": M, "output": 2 * M, "cached_input": M // 2}}


@pytest.mark.parametrize(
    ("file", "text", "bodies"),
    [
        ("p.csv", "model,input,output,cached\na,2.50,10,\nb/c,1,2,0.5\n", TWO),
        ("p.csv", "Model;Input;Output;Cached input\r\na;2.5;$10;\r\nb/c;1;2;0.5\r\n", TWO),
        ("p.tsv", "name\tinput\toutput\tcached_input\na\t2.5\t10\t\nb/c\t1\t2\t0.5\n", TWO),
        ("p.json", '[{"model":"a","input":2.5,"output":10},{"id":"b/c","input":"1","output":2,"cached":0.5}]', TWO),
        ("p.json", '{"a":{"input":2.5,"output":10},"b/c":{"input":1,"output":2,"cached_input":0.5}}', TWO),
        ("p.toml", '[prices.a]\ninput = 2.5\noutput = 10\n["prices"."b/c"]\ninput=1\noutput=2\ncached=0.5\n', TWO),
        ("p.toml", '[a]\ninput = 2.5\noutput = 10\n["b/c"]\ninput=1\noutput=2\ncached=0.5\n', TWO),
        ("p.csv", "model,like,free\nx,gpt-4o,\ny,,yes\n", {"x": {"like": "gpt-4o"}, "y": {"input": 0, "output": 0}}),
        ("p.csv", "model,per_call\nx,0.01\n", {"x": {"input": 0, "output": 0, "per_call": 10_000_000}}),
    ],
)
def test_a_file_has_prices_in_dollars(file: str, text: str, bodies: dict[str, Any]) -> None:
    assert prices_in(text, file) == bodies


def test_tiers_are_written_as_in_the_option() -> None:
    (body,) = prices_in("model,input,output,tier\nx,3,15,200k=6/22.50\n", "p.csv").values()
    assert [(tier["above"], tier["input"], tier["output"]) for tier in body["tiers"]] == [
        (200_000, 6 * M, 22_500_000_000)
    ]


def test_the_list_of_prices_can_be_read_back() -> None:
    tier = Tier(above=200_000, input=Nanos(6), output=Nanos(7))
    rule = PriceRule(variant="flex", input=Nanos(8), output=Nanos(9))
    full = replace(PRICE, tiers=(tier,), extras={"searches": Nanos(5)}, rules=(rule,))
    shown = run("price", "list", "--json", answers={"GET /prices": [full], "GET /prices/news": PriceNews()}).out
    (body,) = prices_in(shown, "-").values()
    assert {name: body[name] for name in ("input", "output", "cached_input", "per_call", "extras")} == {
        "input": 2_500_000_000,
        "output": 10_000_000_000,
        "cached_input": 1_250_000_000,
        "per_call": 0,
        "extras": {"searches": 5},
    }
    assert [(entry["above"], entry["input"], entry["output"]) for entry in body["tiers"]] == [(200_000, 6, 7)]
    assert [(entry["variant"], entry["input"], entry["output"]) for entry in body["rules"]] == [("flex", 8, 9)]


def test_a_price_in_nano_dollars_has_the_amounts_that_it_names() -> None:
    bodies = prices_in('[{"model":"m","input_nanos":3,"output_nanos":4}]', "p.json")
    assert bodies == {"m": {"input": 3, "output": 4}}


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("p.csv", "model,input,output\na,1\n", "line 2 ('a'): give input and output, or like, or free"),
        ("p.csv", "model,input,output\n,1,2\n", "line 2: names no model"),
        ("p.csv", "model,input,output\na,1,2\na,1,2\n", "line 3: 'a' has another price in this file"),
        ("p.csv", "model,input,output\na,x,2\n", "line 2 ('a'): input: "),
        ("p.csv", "model,input,output\na,1,2,3\n", "line 2: has more values than there are columns"),
        (
            "p.json",
            '[{"model":"a","inputs":1}]',
            "entry 1 ('a'): unknown field 'inputs'; the fields are: model, input, ",
        ),
        ("p.json", "[1]", "entry 1: must be an object"),
        ("p.json", "{", "the file is not valid JSON"),
        ("p.toml", "=", "the file is not valid TOML"),
        ("p.csv", "model,input,output\n", "the file has no prices"),
    ],
)
def test_a_mistake_is_named_with_its_place(file: str, text: str, said: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        prices_in(text, file)
    assert said in caught.value.message


def test_all_prices_of_a_file_are_one_change(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("model,input,output\na,1,2\nb,3,4\n")
    control = Control({"POST /batch": {"done": "set 2 prices: 'a', 'b'"}, "GET /prices": []})
    ran = run("price", "set", "--from", str(file), control=control)
    assert ran.err == "Set 2 prices: 'a', 'b'.\n"
    (asked,) = control.bodies
    assert asked["edits"] == [
        {"ref": "a", "patch": {"input": M, "output": 2 * M}},
        {"ref": "b", "patch": {"input": 3 * M, "output": 4 * M}},
    ]


def test_the_prices_of_a_file_are_printed_without_those_at_channels(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f"model,input,output\n{PRICE.model},1,2\n")
    control = Control({"POST /batch": {"done": "set"}, "GET /prices": [PRICE, replace(PRICE, channel="up")]})
    assert [row["channel"] for row in run("price", "set", "--from", str(file), "--json", control=control).json] == [""]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("a,,1,2\nb,up,1,2\nc,up,1,2\n", "note: left out: 2 prices at single channels; set those with --channel\nSet."),
        ("b,up,1,2\n", "note: left out: 1 price at single channels; set those with --channel\n"),
        ("a,,1,2\n", "Set.\n"),
    ],
)
def test_prices_at_single_channels_are_left_out_of_a_file_with_a_note(tmp_path: Path, rows: str, said: str) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(f"model,channel,input,output\n{rows}")
    ran = run("price", "set", "--from", str(file), answers={"POST /batch": {"done": "set"}, "GET /prices": []})
    assert ran.err.startswith(said)
    assert ("the file has no other prices" in ran.err) is (ran.code == Exit.USAGE) is (rows == "b,up,1,2\n")


@pytest.mark.parametrize("more", [("gpt-4o",), ("--free",), ("--input", "1")])
def test_a_file_of_prices_excludes_models_and_amounts(tmp_path: Path, more: tuple[str, ...]) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("model,input,output\na,1,2\n")
    assert run("price", "set", "--from", str(file), *more, answers={}).code == Exit.USAGE
