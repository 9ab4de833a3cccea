"""Whatever the spelling, a turn has its speaker, its text, and the call that a result belongs to."""

from itertools import product
from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.conversation import Conversation, MediaPart, ResultPart, TextPart, ToolChoice, Turn
from gateway.domain.errors import BadRequest
from gateway.upstream.translation import conversation_of
from tests.cases.conversations import call, function
from tests.refusals import refusal_of
from tests.upstream.makers import translated


def _read(*messages: Any, **fields: Any) -> Conversation:
    return conversation_of(translated({"messages": messages, **fields}))


def _turns(*messages: Any) -> list[Turn]:
    return list(_read(*messages).turns)


PLAIN = {"type": "text", "media_type": "text/plain", "data": "h\u00e9"}


def _texts(turn: Turn) -> list[str]:
    return [rawjson.text(part.raw) for part in turn.parts if isinstance(part, TextPart)]


def _results(turn: Turn) -> list[ResultPart]:
    return [block for block in turn.blocks if isinstance(block, ResultPart)]


def _media(part: Any) -> MediaPart:
    (turn,) = _turns({"role": "user", "content": [part]})
    (medium,) = turn.parts
    assert isinstance(medium, MediaPart)
    return medium


@pytest.mark.parametrize(
    ("message", "role", "texts"),
    [
        ({"role": "system", "content": "a"}, "system", ["a"]),
        ({"role": "developer", "content": "a"}, "system", ["a"]),
        ({"role": "user", "content": "a"}, "user", ["a"]),
        ({"role": "assistant", "content": "a"}, "assistant", ["a"]),
        ({"role": "assistant", "content": None, "refusal": "No."}, "assistant", ["No."]),
        ({"role": "user", "content": [{"type": "input_text", "text": "a"}]}, "user", ["a"]),
        ({"role": "user", "content": [{"type": "output_text", "text": "a"}]}, "user", ["a"]),
        ({"role": "user", "content": [{"type": "document", "title": "t", "source": PLAIN}]}, "user", ["t\n\nh\u00e9"]),
        # Results without a call.
        ({"role": "tool", "content": "x"}, "user", ["[tool result]", "x"]),
        ({"role": "function", "name": "f", "content": "x"}, "user", ["[tool result]", "x"]),
    ],
)
def test_messages_have_roles_and_texts(message: Any, role: str, texts: list[str]) -> None:
    (turn,) = _turns(message)
    assert (turn.role, _texts(turn)) == (role, texts)


def test_a_breakpoint_of_the_message_is_one_of_its_text() -> None:
    (turn,) = _turns({"role": "system", "content": "a", "cache_control": {"type": "ephemeral"}})
    assert isinstance(turn.parts[0], TextPart)
    assert rawjson.value(turn.parts[0].cache) == {"type": "ephemeral"}


@pytest.mark.parametrize(
    ("part", "code", "place"),
    [
        ({"type": "video"}, "unsupported_parameter", ""),
        ({"type": "image_url"}, "unsupported_parameter", ""),
        ({"type": "input_audio"}, "unsupported_parameter", ""),
        ({"type": "file"}, "unsupported_parameter", ""),
        ({"type": "image_url", "image_url": "file:///etc/passwd"}, "invalid_value", ".image_url"),
        ({"type": "image_url", "image_url": "data:image/png,AA"}, "invalid_value", ".image_url"),
        ({"type": "image_url", "image_url": "data:;base64,AAAA"}, "invalid_value", ".image_url"),
        ({"type": "image_url", "image_url": "data:;base64,@"}, "invalid_value", ".image_url"),
        ({"type": "image_url", "image_url": ""}, "invalid_value", ".image_url"),
        ({"type": "image_url", "image_url": "a.png"}, "invalid_value", ".image_url"),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "audio/../x"}},
            "invalid_value",
            ".input_audio.format",
        ),
        ({"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}}, "unsupported_parameter", ".file"),
        ({"type": "file", "file": {"file_data": "AA", "filename": "a.doc"}}, "unsupported_parameter", ".file"),
        ({"type": "file", "file": {}}, "unsupported_parameter", ".file"),
        ({"text": "x"}, "invalid_type", ".type"),
        ({"type": 5, "text": "x"}, "invalid_type", ".type"),
        ({"type": "text", "text": 5}, "invalid_type", ".text"),
        ({"type": "text"}, "invalid_type", ".text"),
        ({"type": "refusal", "refusal": {}}, "invalid_type", ".refusal"),
    ],
)
def test_other_parts_are_refused(part: Any, code: str, place: str) -> None:
    error = refusal_of(_turns, {"role": "user", "content": [{"type": "text", "text": "a"}, part]})
    assert (error.code, error.param) == (code, f"messages[0].content[1]{place}")


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "critic", "content": "b"}, "role"),
        ({"role": "assistant", "content": None, "refusal": 3}, "refusal"),
        ({"role": "assistant", "content": {}}, "content"),
        ({"role": "assistant", "tool_calls": [{"type": "custom", "id": "a"}]}, "tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{"id": "a", "name": "f"}]}, "tool_calls[0]"),
    ],
)
def test_other_messages_are_refused(message: Any, param: str) -> None:
    assert refusal_of(_turns, {"role": "user", "content": "a"}, message).param == f"messages[1].{param}"


def test_results_know_their_calls() -> None:
    made = {"role": "assistant", "tool_calls": [call("a", "f", ' {"x": 1} '), call("b", "g", "")]}
    turns = _turns(made, {"role": "tool", "tool_call_id": "b", "content": "x"})
    assert [(c.id, c.name, bytes(c.arguments)) for c in turns[0].calls] == [("a", "f", b'{"x": 1}'), ("b", "g", b"{}")]
    assert [(one.call_id, one.name) for one in _results(turns[1])] == [("a", "f"), ("b", "g")]


@pytest.mark.parametrize("role", ["tool", "user"])
def test_a_result_within_a_result_keeps_its_text(role: str) -> None:
    block = {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}
    result: dict[str, Any] = {"role": "tool", "tool_call_id": "c1", "content": [block]}
    if role == "user":
        result = {"role": "user", "content": [{**block, "content": [{"type": "text", "text": "sunny"}]}]}
    *_, turn = _turns({"role": "assistant", "tool_calls": [call("c1", "weather", "{}")]}, result)
    (found,) = _results(turn)
    assert [rawjson.text(part.raw) for part in found.parts if isinstance(part, TextPart)] == ["sunny"]


def test_the_legacy_spelling_means_the_first_open_call_of_that_name() -> None:
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    made, results = _turns(legacy, legacy, {"role": "function", "name": "f", "content": "x"})
    assert made.calls[0].id != made.calls[1].id
    assert [one.parts[0].raw for one in _results(results) if isinstance(one.parts[0], TextPart)] == [
        rawjson.raw("x"),
        rawjson.raw("[no output]"),
    ]


@pytest.mark.parametrize("id", [{}, {"id": None}, {"id": ""}, {"id": 7}])
@pytest.mark.parametrize("named", [{}, {"name": "f"}])
def test_calls_without_a_proper_id_have_their_results(id: dict[str, Any], named: dict[str, str]) -> None:
    made = {"role": "assistant", "tool_calls": [{**id, "function": {"name": "f", "arguments": "{}"}}]}
    result = {"role": "tool", **{f"tool_call_{name}": value for name, value in id.items()}, **named, "content": "x"}
    turns = _turns(made, result)
    (call,), (found,) = turns[0].calls, _results(turns[1])
    assert (found.call_id, found.name, found.parts) == (call.id, "f", (TextPart(raw=rawjson.raw("x")),))
    assert call.id


@pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', "1"])
def test_arguments_are_an_object(arguments: str) -> None:
    order = translated({"messages": [{"role": "assistant", "tool_calls": [call("a", "f", arguments)]}]})
    assert rawjson.value(conversation_of(order).turns[0].calls[0].arguments) == {"invalid_arguments": arguments}
    assert "tool_arguments_repaired" in order.marks


def test_arguments_may_come_as_the_object_itself() -> None:
    made = {"id": "a", "type": "function", "function": {"name": "f", "arguments": {"x": [1]}}}
    (turn, _) = _turns({"role": "assistant", "tool_calls": [made]})
    assert bytes(turn.calls[0].arguments) == b'{"x": [1]}'


def test_a_custom_call_is_one_of_a_function_with_its_input() -> None:
    made = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": '*** "x"'}}
    (turn, _) = _turns({"role": "assistant", "tool_calls": [made]})
    assert (turn.calls[0].name, rawjson.value(turn.calls[0].arguments)) == ("patch", {"input": '*** "x"'})


def test_a_signature_is_where_google_puts_it() -> None:
    signed = {**call("a", "f", "{}"), "extra_content": {"google": {"thought_signature": "U0lH"}}}
    odd = {**call("b", "f", "{}"), "extra_content": {"google": {"thought_signature": 3}}}
    (turn, _) = _turns({"role": "assistant", "tool_calls": [signed, odd]})
    assert [made.signature for made in turn.calls] == ["U0lH", ""]


@pytest.mark.parametrize(("text", "blank"), [("", True), (" \n\t\r", True), ("a", False), (" a ", False)])
def test_a_text_of_white_space_is_blank(text: str, blank: bool) -> None:
    assert TextPart(raw=rawjson.raw(text)).blank is blank


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("data:image/png;base64,AA==", "image/png"),
        ("DATA:Image/JPG;Base64,AA==", "image/jpeg"),
        ("data:image/svg+xml;charset=utf-8;base64,AA==", "image/svg+xml"),
    ],
)
def test_a_data_url_is_an_image_with_its_type(url: str, kind: str) -> None:
    expected = MediaPart(type=kind, data="AA==", param="messages[0].content[0].image_url")
    assert _media({"type": "image_url", "image_url": url}) == expected
    assert _media({"type": "image_url", "image_url": {"url": url}}) == expected


def _picture(url: str, **more: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **more}}


def _sound(**fields: str) -> dict[str, Any]:
    return {"type": "input_audio", "input_audio": {"data": "AA", **fields}}


def _file(**fields: str) -> dict[str, Any]:
    return {"type": "file", "file": fields}


WRONG_PICTURE = {"type": "base64", "media_type": "image/jpeg", "data": "iVBORw0KGgo="}
PDF, PDF_DATA = "https://h/a.pdf", "data:application/pdf;base64,AA"


@pytest.mark.parametrize(
    ("part", "medium"),
    [
        (_picture("https://h/a.png", detail="low"), {"url": "https://h/a.png", "detail": "low"}),
        ({"type": "image_url", "image_url": "https://h/a.png", "detail": "low"}, {"detail": "low"}),
        ({"type": "image_url", "image_url": "https://h/a.png", "detail": "original"}, {"detail": "high"}),
        ({"type": "input_image", "image_url": "https://h/a.png"}, {"type": "", "url": "https://h/a.png"}),
        # An image has the type that its bytes show.
        (_picture("data:image/png;base64,/9j/4AAQSkZJRg=="), {"type": "image/jpeg", "data": "/9j/4AAQSkZJRg=="}),
        (_picture("data:image/jpeg;base64,iVBORw0KGgo="), {"type": "image/png", "data": "iVBORw0KGgo="}),
        ({"type": "image", "source": WRONG_PICTURE}, {"type": "image/png", "data": "iVBORw0KGgo="}),
        (_picture("data:;base64,iVBORw0KGgo="), {"type": "image/png", "data": "iVBORw0KGgo="}),
        (_picture("data:image/jpg;base64,AAAA"), {"type": "image/jpeg", "data": "AAAA"}),
        (_picture("data:image/svg+xml;base64,PHN2Zz4="), {"type": "image/svg+xml", "data": "PHN2Zz4="}),
        (_picture("data:image/png;base64,not base64"), {"type": "image/png", "data": "not base64"}),
        (_picture("data:video/mp4;base64,iVBORw0KGgo="), {"type": "video/mp4", "data": "iVBORw0KGgo="}),
        ({"type": "video_url", "video_url": {"url": "https://h/a.mp4"}}, {"type": "video/*", "url": "https://h/a.mp4"}),
        ({"type": "video_url", "video_url": "data:video/mp4;base64,AA"}, {"type": "video/mp4", "url": ""}),
        ({"type": "audio_url", "audio_url": {"url": "https://h/a"}}, {"type": "audio/*", "url": "https://h/a"}),
        ({"type": "input_audio", "audio_url": "data:audio/mpeg;base64,AA"}, {"type": "audio/mp3", "data": "AA"}),
        (_sound(format="wav"), {"type": "audio/wav", "data": "AA"}),
        (_sound(format="mp3"), {"type": "audio/mp3"}),
        (_sound(format="ogg"), {"type": "audio/ogg"}),
        (_sound(), {"type": "audio/wav"}),
        (_sound(data="data:audio/wav;base64,AA", format="wav"), {"data": "AA"}),
        (_sound(data="data:;base64,AA", format="wav"), {"data": "AA"}),
        (_sound(data="https://h/a", format="wav"), {"type": "audio/wav", "url": "https://h/a"}),
        # As Mistral writes sounds: the data or the address alone.
        *(
            ({"type": "input_audio", "input_audio": sound}, {"type": kind, **found})
            for sound, kind, found in (
                ("SUQzAA", "audio/mp3", {"data": "SUQzAA"}),
                ("//NkAA", "audio/mp3", {"data": "//NkAA"}),
                ("UklGRg", "audio/wav", {"data": "UklGRg"}),
                ("data:audio/ogg;base64,AA", "audio/ogg", {"data": "AA"}),
                ("data:audio/x-m4a;base64,AA", "audio/m4a", {"data": "AA"}),
                ("data:application/octet-stream;base64,SUQz", "audio/mp3", {"data": "SUQz"}),
                ("https://h/a", "audio/wav", {"url": "https://h/a"}),
            )
        ),
        (_file(file_data=PDF_DATA), {"type": "application/pdf", "data": "AA"}),
        (_file(file_data="AA", filename="a.PDF"), {"type": "application/pdf", "data": "AA"}),
        (_file(file_data="data:text/plain;base64,AA", filename="a.pdf"), {"type": "text/plain", "data": "AA"}),
        (_file(file_data=PDF), {"type": "application/pdf", "url": PDF}),
        ({"type": "input_file", "file_url": PDF}, {"type": "application/pdf", "url": PDF}),
        # As LiteLLM, Mistral, Perplexity and Anthropic write documents.
        (_file(file_id=PDF, format="application/pdf"), {"type": "application/pdf", "url": PDF}),
        *(
            ({"type": kind, kind: {"url": url} if nested else url}, {"type": "application/pdf", **found})
            for kind, nested in product(("document_url", "file_url"), (False, True))
            for url, found in ((PDF, {"url": PDF, "data": ""}), (PDF_DATA, {"url": "", "data": "AA"}))
        ),
        ({"type": "document_url", "document_url": PDF_DATA, "document_name": "a"}, {"data": "AA", "name": "a"}),
        ({"type": "file_url", "file_url": {"url": "JVBERi0x"}, "file_name": "a"}, {"data": "JVBERi0x", "name": "a"}),
    ],
)
def test_media_of_every_kind_are_read(part: Any, medium: dict[str, str]) -> None:
    found = _media(part)
    assert {name: getattr(found, name) for name in medium} == medium


ASKED = {"role": "assistant", "tool_calls": [call("c1", "read", "{}")]}


def _failed(content: Any, **fields: Any) -> bool:
    (result,) = _results(_turns(ASKED, {"role": "tool", "tool_call_id": "c1", "content": content, **fields})[1])
    return result.failed


@pytest.mark.parametrize(
    ("mark", "failed"),
    [
        *((mark, True) for mark in ({"is_error": True}, {"status": "error"})),
        *((mark, False) for mark in ({}, {"is_error": False}, {"is_error": "true"}, {"is_error": None})),
        ({"status": "done"}, False),
    ],
)
def test_a_field_marks_a_failed_tool(mark: dict[str, Any], failed: bool) -> None:
    assert _failed("no such file", **mark) is failed


def test_fields_of_messages_that_have_no_counterpart_are_named() -> None:
    found = _read(
        {"role": "user", "content": "a", "name": "Eva"},
        {"role": "assistant", "content": "b", "refusal": None, "annotations": [], "audio": {"id": "x"}},
    )
    assert found.extras == ("messages[].name", "messages[].audio")


@pytest.mark.parametrize(
    ("fields", "effort", "left"),
    [
        ({"reasoning": {"effort": "low"}}, "low", False),
        ({"reasoning": {"max_tokens": 9000}}, "high", False),
        ({"reasoning": {"enabled": True, "exclude": False}}, "medium", False),
        ({"reasoning": {"enabled": False}}, "none", False),
        ({"reasoning": {"effort": "low"}, "reasoning_effort": "high"}, "high", False),
        ({"reasoning": {"effort": "low", "exclude": True}}, "low", True),
        ({"reasoning": {}}, None, True),
        ({"reasoning_effort": "high"}, "high", False),
        ({"enable_thinking": False}, "none", False),  # Qwen's, SiliconFlow's
        ({"enable_thinking": True}, None, False),
        ({"enable_thinking": "no"}, None, False),
        ({"enable_thinking": False, "reasoning_effort": "low"}, "low", False),
        ({"enable_thinking": False, "reasoning": {"effort": "low"}}, "low", False),
    ],
)
def test_openrouters_reasoning_is_an_effort(fields: dict[str, Any], effort: str | None, *, left: bool) -> None:
    found = translated({"messages": [], **fields}).fields
    assert (rawjson.maybe(found.get("reasoning_effort")), "reasoning" in found) == (effort, left)


NAMED = {"type": "function", "function": {"name": "f"}}


def test_tools_and_legacy_functions() -> None:
    assert _read() == Conversation(turns=())
    assert [tool.name for tool in _read(tools=[function("f")], functions=[{"name": "g"}]).tools] == ["f", "g"]


@pytest.mark.parametrize(
    ("fields", "choice"),
    [
        ({"tool_choice": "auto"}, ToolChoice(mode="auto")),
        ({"tool_choice": "required"}, ToolChoice(mode="required")),
        ({"tool_choice": "any"}, ToolChoice(mode="required")),
        ({"tool_choice": "validated"}, ToolChoice(mode="auto")),
        ({"tool_choice": {"type": "auto"}}, ToolChoice(mode="auto")),
        ({"tool_choice": {"type": "any"}}, ToolChoice(mode="required")),
        ({"tool_choice": NAMED}, ToolChoice(mode="named", name="f")),
        ({"tool_choice": {"type": "function", "name": "f"}}, ToolChoice(mode="named", name="f")),
        ({"tool_choice": {"type": "tool", "name": "f"}}, ToolChoice(mode="named", name="f")),
        ({"function_call": "none"}, ToolChoice(mode="none", param="function_call")),
        ({"function_call": {"name": "f"}}, ToolChoice(mode="named", name="f", param="function_call")),
        ({"function_call": "none", "tool_choice": "auto"}, ToolChoice(mode="auto")),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}},
            ToolChoice(mode="required", allowed=("f",)),
        ),
    ],
)
def test_each_tool_choice_is_read(fields: dict[str, Any], choice: ToolChoice) -> None:
    assert _read(tools=[function("f"), function("g")], **fields).choice == choice


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools[0]"),
        ({"tools": [{"function": {"name": 3}}]}, "tools[0].function.name"),
        ({"tool_choice": "perhaps"}, "tool_choice"),
        ({"tool_choice": {"type": "custom", "custom": {"name": "x"}}}, "tool_choice"),
        ({"function_call": "perhaps"}, "function_call"),
    ],
)
def test_other_tools_and_choices_are_refused(fields: dict[str, Any], param: str) -> None:
    assert refusal_of(_read, **fields).param == param


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ({"google_search": {}}, "google_search"),
        ({"googleSearch": {}}, "googleSearch"),
        ({"type": "web_search_20250305", "name": "web_search"}, "web_search_20250305"),
        ({"type": "web_search_preview"}, "web_search_preview"),
        ({"code_execution": {}}, "code_execution"),
        ({"type": "mcp", "server_url": "https://x"}, "mcp"),
    ],
)
def test_a_tool_that_its_vendor_runs_is_refused_by_its_name(tool: dict[str, Any], name: str) -> None:
    with pytest.raises(BadRequest, match=f"tools.1.: '{name}' is a tool that its vendor runs") as caught:
        _read(tools=[function("f"), tool])
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "tools[1]")


def test_unread_fields_of_tools_are_named() -> None:
    tool = {**function("f"), "defer_loading": True}
    tool["function"] = {**tool["function"], "strict": True, "examples": [1], "nothing": None}
    named = ("messages[].mood", "tools[].defer_loading", "tools[].function.examples")
    assert _read({"role": "user", "content": "a", "mood": "x"}, tools=[tool, function("g")]).extras == named
