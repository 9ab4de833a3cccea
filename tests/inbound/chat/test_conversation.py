"""Whatever the spelling, a turn has its speaker, its text, and the call that a result belongs to."""

from typing import Any

import pytest

from gateway.domain import rawjson
from gateway.domain.conversation import Conversation, MediaPart, ResultPart, TextPart, ToolChoice, Turn
from gateway.domain.errors import BadRequest
from gateway.upstream.translation import conversation_of
from tests.cases.conversations import call, function
from tests.upstream.makers import translated


def _read(*messages: Any, **fields: Any) -> Conversation:
    return conversation_of(translated({"messages": messages, **fields}))


def _turns(*messages: Any) -> list[Turn]:
    return list(_read(*messages).turns)


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
    ("role", "known"), [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant")]
)
def test_roles(role: str, known: str) -> None:
    (turn,) = _turns({"role": role, "content": "a"})
    assert (turn.role, _texts(turn)) == (known, ["a"])


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}, "cache_control": {"x": 1}}
    (turn,) = _turns({"role": "user", "content": [*parts, image]})
    assert _texts(turn) == ["a", "b"]
    medium = turn.parts[2]
    assert isinstance(medium, MediaPart)
    assert (medium.type, rawjson.value(medium.cache)) == ("image/png", {"x": 1})


def test_images_of_an_answer_come_back() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    turn = _read({"role": "assistant", "content": "a", "images": [image]}).turns[0]
    assert [part.data for part in turn.parts if isinstance(part, MediaPart)] == ["AA"]
    assert _texts(turn) == ["a"]


def test_a_breakpoint_of_the_message_is_one_of_its_text() -> None:
    (turn,) = _turns({"role": "system", "content": "a", "cache_control": {"type": "ephemeral"}})
    assert isinstance(turn.parts[0], TextPart)
    assert rawjson.value(turn.parts[0].cache) == {"type": "ephemeral"}


def test_a_refusal_counts_as_text() -> None:
    (turn,) = _turns({"role": "assistant", "content": None, "refusal": "No."})
    assert _texts(turn) == ["No."]


@pytest.mark.parametrize(
    ("part", "code", "place"),
    [
        ({"type": "video"}, "unsupported_parameter", ""),
        ({"type": "image_url"}, "unsupported_parameter", ""),
        ({"type": "input_audio"}, "unsupported_parameter", ""),
        ({"type": "file"}, "unsupported_parameter", ""),
        ({"type": "image_url", "image_url": "file:///etc/passwd"}, "invalid_value", ".image_url"),
        ({"type": "image_url", "image_url": "data:image/png,AA"}, "invalid_value", ".image_url"),
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
        ({"type": "text", "text": 5}, "invalid_type", ".text"),
        ({"type": "text"}, "invalid_type", ".text"),
        ({"type": "refusal", "refusal": {}}, "invalid_type", ".refusal"),
    ],
)
def test_other_parts_are_refused(part: Any, code: str, place: str) -> None:
    with pytest.raises(BadRequest) as caught:
        _turns({"role": "user", "content": [{"type": "text", "text": "a"}, part]})
    assert (caught.value.code, caught.value.param) == (code, f"messages[0].content[1]{place}")


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
    with pytest.raises(BadRequest) as caught:
        _turns({"role": "user", "content": "a"}, message)
    assert caught.value.param == f"messages[1].{param}"


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
        result = {"role": "user", "content": [{**block, "content": [block]}]}
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


@pytest.mark.parametrize("message", [{"role": "tool"}, {"role": "function", "name": "f"}])
def test_results_of_nothing_are_texts(message: Any) -> None:
    (turn,) = _turns({**message, "content": "x"})
    assert (turn.role, _texts(turn)) == ("user", ["[tool result]", "x"])


@pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', "1"])
def test_arguments_are_an_object(arguments: str) -> None:
    found = _read({"role": "assistant", "tool_calls": [call("a", "f", arguments)]})
    assert rawjson.value(found.turns[0].calls[0].arguments) == {"invalid_arguments": arguments}
    assert "tool_arguments_repaired" in found.marks


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
def test_blanks(text: str, blank: bool) -> None:
    assert TextPart(raw=rawjson.raw(text)).blank is blank


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("data:image/png;base64,AA==", "image/png"),
        ("DATA:Image/JPG;Base64,AA==", "image/jpeg"),
        ("data:image/svg+xml;charset=utf-8;base64,AA==", "image/svg+xml"),
    ],
)
def test_embedded_images(url: str, kind: str) -> None:
    expected = MediaPart(type=kind, data="AA==", where="messages[0].content[0].image_url")
    assert _media({"type": "image_url", "image_url": url}) == expected
    assert _media({"type": "image_url", "image_url": {"url": url}}) == expected


def test_an_image_on_the_web() -> None:
    found = _media({"type": "image_url", "image_url": {"url": "https://h/a.png", "detail": "low"}})
    assert (found.url, found.detail) == ("https://h/a.png", "low")


@pytest.mark.parametrize(
    ("sound", "media"),
    [
        ({"format": "wav"}, "audio/wav"),
        ({"format": "mp3"}, "audio/mp3"),
        ({"format": "ogg"}, "audio/ogg"),
        ({}, "audio/wav"),
    ],
)
def test_sounds(sound: dict[str, str], media: str) -> None:
    assert _media({"type": "input_audio", "input_audio": {"data": "AA", **sound}}).type == media


@pytest.mark.parametrize("data", ["data:audio/wav;base64,AA", "data:;base64,AA", "AA"])
def test_the_data_of_a_sound_may_be_a_url(data: str) -> None:
    assert _media({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}).data == "AA"


@pytest.mark.parametrize(
    ("part", "media_type", "url"),
    [
        ({"type": "video_url", "video_url": {"url": "https://h/a.mp4"}}, "video/*", "https://h/a.mp4"),
        ({"type": "video_url", "video_url": "data:video/mp4;base64,AA"}, "video/mp4", ""),
        ({"type": "input_audio", "input_audio": {"data": "https://h/a", "format": "wav"}}, "audio/wav", "https://h/a"),
        ({"type": "file", "file": {"file_data": "https://h/a.pdf"}}, "application/pdf", "https://h/a.pdf"),
        ({"type": "input_image", "image_url": "https://h/a.png"}, "", "https://h/a.png"),
        ({"type": "input_file", "file_url": "https://h/a.pdf"}, "application/pdf", "https://h/a.pdf"),
    ],
)
def test_media_with_an_address(part: Any, media_type: str, url: str) -> None:
    medium = _media(part)
    assert (medium.type, medium.url) == (media_type, url)


@pytest.mark.parametrize(("sent", "read"), [("low", "low"), ("original", "high")])
def test_the_detail_of_an_image_may_be_beside_its_address(sent: str, read: str) -> None:
    assert _media({"type": "image_url", "image_url": "https://h/a.png", "detail": sent}).detail == read


@pytest.mark.parametrize("kind", ["input_text", "output_text"])
def test_texts_of_the_responses_api(kind: str) -> None:
    (turn,) = _turns({"role": "user", "content": [{"type": kind, "text": "a"}]})
    assert _texts(turn) == ["a"]


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ({"file_data": "data:application/pdf;base64,AA"}, "application/pdf"),
        ({"file_data": "AA", "filename": "a.PDF"}, "application/pdf"),
        ({"file_data": "data:text/plain;base64,AA", "filename": "a.pdf"}, "text/plain"),
    ],
)
def test_documents(file: dict[str, str], kind: str) -> None:
    found = _media({"type": "file", "file": file})
    assert (found.type, found.data) == (kind, "AA")


@pytest.mark.parametrize(
    ("said", "data", "found"),
    [
        ("image/png", "/9j/4AAQSkZJRg==", "image/jpeg"),
        ("image/jpeg", "iVBORw0KGgo=", "image/png"),
        ("image/jpg", "AAAA", "image/jpeg"),
        ("image/svg+xml", "PHN2Zz4=", "image/svg+xml"),
        ("image/png", "not base64", "image/png"),
        ("video/mp4", "iVBORw0KGgo=", "video/mp4"),
    ],
)
def test_an_image_has_the_type_that_its_bytes_show(said: str, data: str, found: str) -> None:
    medium = _media({"type": "image_url", "image_url": {"url": f"data:{said};base64,{data}"}})
    assert (medium.type, medium.data) == (found, data)


def test_a_document_may_be_linked_to_as_litellm_does() -> None:
    found = _media({"type": "file", "file": {"file_id": "https://h/a.pdf", "format": "application/pdf"}})
    assert (found.type, found.url) == ("application/pdf", "https://h/a.pdf")


@pytest.mark.parametrize("kind", ["document_url", "file_url"])
@pytest.mark.parametrize("nested", [False, True])
def test_documents_in_the_forms_of_mistral_and_perplexity(kind: str, nested: bool) -> None:
    found = [
        _media({"type": kind, kind: {"url": url} if nested else url})
        for url in ("https://h/a.pdf", "data:application/pdf;base64,AA")
    ]
    assert [(one.type, one.url, one.data) for one in found] == [
        ("application/pdf", "https://h/a.pdf", ""),
        ("application/pdf", "", "AA"),
    ]


def test_a_document_of_text_in_anthropics_form() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "h\u00e9"}
    found = _media({"type": "document", "source": source, "title": "t"})
    assert (found.type, found.data, found.name) == ("text/plain", "aMOp", "t")


ASKED = {"role": "assistant", "tool_calls": [call("c1", "read", "{}")]}


def _failed(content: Any, **fields: Any) -> bool:
    (result,) = _results(_turns(ASKED, {"role": "tool", "tool_call_id": "c1", "content": content, **fields})[1])
    return result.failed


@pytest.mark.parametrize("mark", [{"is_error": True}, {"status": "error"}])
def test_a_field_marks_a_failed_tool(mark: dict[str, Any]) -> None:
    assert _failed("no such file", **mark)


@pytest.mark.parametrize(
    "mark", [{}, {"is_error": False}, {"is_error": "true"}, {"is_error": None}, {"status": "done"}]
)
def test_other_values_do_not(mark: dict[str, Any]) -> None:
    assert not _failed("no such file", **mark)


def test_fields_of_messages_that_have_no_counterpart_are_named() -> None:
    found = _read(
        {"role": "user", "content": "a", "name": "Eva"},
        {"role": "assistant", "content": "b", "refusal": None, "annotations": [], "audio": {"id": "x"}},
    )
    assert found.extras == ("messages[].name", "messages[].audio")


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
def test_choices(fields: dict[str, Any], choice: ToolChoice) -> None:
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
    with pytest.raises(BadRequest) as caught:
        _read(**fields)
    assert caught.value.param == param


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
