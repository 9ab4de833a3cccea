"""Whatever the spelling, a turn has its speaker, its text, and the call that a result belongs to."""

from typing import Any

import pytest

from gateway.domain.errors import BadRequest
from gateway.upstream import rawjson
from gateway.upstream.rawjson import NULL
from gateway.upstream.translate.conversation import Media, TextPart, Turn, audio_of, file_of, image_of, read_turns
from gateway.upstream.translate.request import Audio, File, ImageUrl, read_request
from tests.cases.conversations import call
from tests.upstream.makers import order


def _turns(*messages: Any) -> list[Turn]:
    return read_turns(read_request(order({"messages": messages}).fields).messages)


def _texts(turn: Turn) -> list[str]:
    return [part.value for part in turn.parts if isinstance(part, TextPart)]


@pytest.mark.parametrize(
    ("role", "known"),
    [("system", "system"), ("developer", "system"), ("user", "user"), ("assistant", "assistant")],
)
def test_roles(role: str, known: str) -> None:
    (turn,) = _turns({"role": role, "content": "a"})
    assert (turn.role, _texts(turn)) == (known, ["a"])


def test_an_unknown_role_is_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        _turns({"role": "user", "content": "a"}, {"role": "critic", "content": "b"})
    assert caught.value.param == "messages[1].role"


def test_content_in_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}]
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}, "cache_control": {"x": 1}}
    (turn,) = _turns({"role": "user", "content": [*parts, image]})
    assert _texts(turn) == ["a", "b"]
    medium = turn.parts[2]
    assert isinstance(medium, Media)
    assert (medium.type, rawjson.value(medium.cache)) == ("image/png", {"x": 1})


def test_a_breakpoint_of_the_message_is_one_of_its_text() -> None:
    (turn,) = _turns({"role": "system", "content": "a", "cache_control": {"type": "ephemeral"}})
    assert isinstance(turn.parts[0], TextPart)
    assert rawjson.value(turn.parts[0].cache) == {"type": "ephemeral"}


def test_a_refusal_counts_as_text() -> None:
    (turn,) = _turns({"role": "assistant", "content": None, "refusal": "No."})
    assert _texts(turn) == ["No."]


@pytest.mark.parametrize("part", [{"type": "video"}, {"type": "image_url"}, {"type": "input_audio"}, {"type": "file"}])
def test_other_parts_are_refused(part: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        _turns({"role": "user", "content": [{"type": "text", "text": "a"}, part]})
    assert caught.value.param == "messages[0].content[1]"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"content": [{"type": "text", "text": 5}]}, "messages[0].content[0].text"),
        ({"content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"content": [{"type": "refusal", "refusal": {}}]}, "messages[0].content[0].refusal"),
        ({"content": None, "refusal": 3}, "messages[0].refusal"),
    ],
)
def test_texts_are_strings(message: Any, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        _turns({"role": "assistant", **message})
    assert (caught.value.code, caught.value.param) == ("invalid_type", param)


def test_results_know_their_calls() -> None:
    made = {"role": "assistant", "tool_calls": [call("a", "f", ' {"x": 1} '), call("b", "g", "")]}
    turns = _turns(made, {"role": "tool", "tool_call_id": "b", "content": "x"})
    assert [(c.id, c.name, bytes(c.arguments)) for c in turns[0].calls] == [("a", "f", b'{"x": 1}'), ("b", "g", b"{}")]
    assert (turns[1].answers, turns[1].name) == ("b", "g")


def test_the_legacy_spelling_means_the_last_call_of_that_name() -> None:
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    turns = _turns(legacy, legacy, {"role": "function", "name": "f", "content": "x"})
    assert turns[2].answers == turns[1].calls[0].id != turns[0].calls[0].id


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "function", "name": "f", "content": "x"}, "messages[0].name"),
    ],
)
def test_results_of_nothing_are_refused(message: Any, param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        _turns(message)
    assert caught.value.param == param


@pytest.mark.parametrize("arguments", ["{", "[1]", '"x"', "NaN", "1"])
def test_arguments_are_an_object(arguments: str) -> None:
    with pytest.raises(BadRequest) as caught:
        _turns({"role": "assistant", "tool_calls": [call("a", "f", arguments)]})
    assert caught.value.param == "messages[0].tool_calls[0].function.arguments"


@pytest.mark.parametrize("made", [{"type": "custom", "id": "a"}, {"function": {"name": "f"}}])
def test_other_calls_are_refused(made: Any) -> None:
    with pytest.raises(BadRequest) as caught:
        _turns({"role": "assistant", "tool_calls": [made]})
    assert caught.value.param == "messages[0].tool_calls[0]"


def test_a_signature_is_where_google_puts_it() -> None:
    signed = {**call("a", "f", "{}"), "extra_content": {"google": {"thought_signature": "U0lH"}}}
    odd = {**call("b", "f", "{}"), "extra_content": {"google": {"thought_signature": 3}}}
    (turn,) = _turns({"role": "assistant", "tool_calls": [signed, odd]})
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
    expected = Media(type=kind, data="AA==", where="p.image_url")
    assert image_of(url, NULL, "p") == image_of(ImageUrl(url=url), NULL, "p") == expected


def test_an_image_on_the_web() -> None:
    assert image_of("https://h/a.png", NULL, "p") == Media(url="https://h/a.png", where="p.image_url")


@pytest.mark.parametrize("url", ["http://h/a.png", "file:///etc/passwd", "data:image/png,AA", "", "a.png"])
def test_other_images_are_refused(url: str) -> None:
    with pytest.raises(BadRequest) as caught:
        image_of(url, NULL, "p")
    assert caught.value.param == "p.image_url"


@pytest.mark.parametrize(("kind", "media"), [("wav", "audio/wav"), ("mp3", "audio/mp3")])
def test_sounds(kind: str, media: str) -> None:
    assert audio_of(Audio(data="AA", format=kind), "p").type == media


def test_other_sounds_are_refused() -> None:
    with pytest.raises(BadRequest) as caught:
        audio_of(Audio(data="AA", format="ogg"), "p")
    assert caught.value.param == "p.input_audio.format"


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        (File(file_data="data:application/pdf;base64,AA"), "application/pdf"),
        (File(file_data="AA", filename="a.PDF"), "application/pdf"),
        (File(file_data="data:text/plain;base64,AA", filename="a.pdf"), "text/plain"),
    ],
)
def test_documents(file: File, kind: str) -> None:
    found = file_of(file, NULL, "p")
    assert (found.type, found.data) == (kind, "AA")


@pytest.mark.parametrize("file", [File(file_id="file-1"), File(file_data="AA", filename="a.doc"), File()])
def test_other_documents_are_refused(file: File) -> None:
    with pytest.raises(BadRequest) as caught:
        file_of(file, NULL, "p")
    assert (caught.value.code, caught.value.param) == ("unsupported_parameter", "p.file")


ASKED = {"role": "assistant", "tool_calls": [call("c1", "read", "{}")]}


def _failed(content: Any, **fields: Any) -> bool:
    return _turns(ASKED, {"role": "tool", "tool_call_id": "c1", "content": content, **fields})[1].failed


@pytest.mark.parametrize("mark", [{"is_error": True}, {"status": "error"}])
def test_a_field_marks_a_failed_tool(mark: dict[str, Any]) -> None:
    assert _failed("no such file", **mark)


@pytest.mark.parametrize(
    "mark", [{}, {"is_error": False}, {"is_error": "true"}, {"is_error": None}, {"status": "done"}]
)
def test_other_values_do_not(mark: dict[str, Any]) -> None:
    assert not _failed("no such file", **mark)


@pytest.mark.parametrize(
    "text",
    [
        "The tool call returned the following error:\nno such file",
        "The tool execution failed with the following error:\n<error>\nno such file\n</error>",
        "An error occurred while running the tool. Please try again. Error: no such file",
        "Error executing tool 'read' with kwargs {} with error:\n no such file\n Please fix the error and try again.",
        "Error executing tool read: no such file",
        "Error: FileNotFoundError('a')\n Please fix your mistakes.",
        "Error: KeyError('a')\n please fix your mistakes.",
        "Tool execution denied.",
        '{"content":[{"type":"text","text":"no such file"}],"isError":true}',
    ],
)
def test_a_sentence_of_the_clients_marks_a_failed_tool(text: str) -> None:
    assert _failed(text)
    assert _failed([{"type": "text", "text": text}])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Error: no such file",
        "Error executing tool write: no such file",
        "Error: 3 lines of a log\n Please fix your mistakes. Then more of it",
        "a log: The tool call returned the following error:\n",
        "Tool execution denied. Nothing was done.",
        '{"isError":true}',
        '{"isError":false,"content":[]}',
        '{"content":[{"isError":true}]}',
        '{"isError":true,"content":[]',
        "{",
    ],
)
def test_what_only_speaks_of_errors_is_a_good_result(text: str) -> None:
    assert not _failed(text)
    assert not _failed([])
    assert not _failed(None)
