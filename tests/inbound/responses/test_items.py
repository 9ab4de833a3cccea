"""Input items of the Responses API as messages."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.answer import Seal, SealKind, seal_text
from gateway.domain.channel import Dialect
from gateway.domain.conversation import Conversation, ThoughtPart
from gateway.domain.order import Order
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.responses.request import translate_responses
from gateway.upstream.dialects import new_adapter
from gateway.upstream.translation import conversation_of
from tests.refusals import refusal_of
from tests.upstream.makers import channel


def read(given: Any, *, tools: list[dict[str, Any]] | None = None) -> tuple[Conversation, list[dict[str, Any]]]:
    """What is read, and the messages of the chat completion that a channel without the API gets."""
    body = {"model": "m", "input": given, "tools": tools or []}
    fields = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in body.items()}
    order, _ = translate_responses(Order(fields=fields, model="m"))
    written = finish_translation(order, channel(preset="ollama"), new_adapter(Dialect.OPENAI))
    messages: list[dict[str, Any]] = json.loads(bytes(written.fields["messages"]))
    return conversation_of(order), messages


def messages(*items: Any, **more: Any) -> list[dict[str, Any]]:
    return read(list(items), **more)[1]


def call(id: str, name: str = "f", arguments: str = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments, **more}


def output(id: str, text: Any = "done") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": id, "output": text, "id": f"fco_{id}"}


def chat_call(id: str, name: str = "f", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


USER = {"role": "user", "content": "go"}


def test_a_string_is_what_the_user_says() -> None:
    assert read("hi")[1] == [{"role": "user", "content": "hi"}]


def test_easy_and_full_messages_with_parts_of_any_name() -> None:
    assert messages(
        {"role": "developer", "content": [{"type": "input_text", "text": "d"}]},
        {"role": "user", "content": "u"},
        {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "a"}]},
        {"type": "message", "role": "user", "content": [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": None, "encrypted_content": None},
    ) == [
        {"role": "system", "content": "d"},
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "x\n\ny"},
    ]


def test_text_and_parallel_calls_are_one_message_and_results_follow() -> None:
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "let me"}]}
    assert messages(USER, said, call("a"), call("b"), output("a"), output("b", "two")) == [
        USER,
        {"role": "assistant", "content": "let me", "tool_calls": [chat_call("a"), chat_call("b")]},
        {"role": "tool", "tool_call_id": "a", "content": "done"},
        {"role": "tool", "tool_call_id": "b", "content": "two"},
    ]


def test_an_image_in_a_result_follows_as_what_the_user_shows() -> None:
    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "original"}
    found = messages(call("a"), call("b"), output("a", [{"type": "input_text", "text": "see"}, image]), output("b"))
    assert found[1]["content"] == "see\n\n[image of tool result a]"
    assert [one["role"] for one in found] == ["assistant", "tool", "tool", "user"]
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}}
    assert found[3]["content"] == [shown]


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ('[{"detail":"high","image_url":"data:image/png;base64,AAAA","type":"input_image"}]', True),
        ('[{"type": "input_text", "text": "a"}, {"image_url": "data:image/png;base64,AAAA"}]', False),
        ('[{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}', False),
        ('[{"image": 1}, {"image_url": "data:image/png;base64,AAAA"}]', False),
        ("an image_url is data:image/png;base64,AAAA", False),
        ('[{"type": "row", "image_url": "data:image/png;base64,AAAA"}]', False),
        ('[{"type": "input_image", "image_url": "data:image/svg+xml;utf8,<svg/>"}]', False),
        ('[{"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": 5}]', True),
    ],
)
def test_images_that_codex_writes_into_a_text_are_images(text: str, image: bool) -> None:
    found = messages(call("a"), output("a", text))
    assert (found[-1]["role"] == "user") is image
    assert (found[1]["content"] == text) is not image


def test_images_files_and_sounds_of_a_message() -> None:
    parts = [
        {"type": "input_image", "image_url": "https://x.test/a.png"},
        {"type": "input_file", "file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
    ]
    assert messages({"role": "user", "content": parts})[0]["content"] == [
        {"type": "image_url", "image_url": {"url": "https://x.test/a.png"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA", "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
    ]


@pytest.mark.parametrize(
    ("item", "param", "code"),
    [
        ({"type": "item_reference", "id": "msg_1"}, "input[1]", "previous_response_not_found"),
        ({"id": "msg_1"}, "input[1]", "previous_response_not_found"),
        ({"type": "compaction", "encrypted_content": "x"}, "input[1]", "unsupported_parameter"),
        ({"type": "compaction_trigger"}, "input[1]", "unsupported_parameter"),
        (
            {"role": "user", "content": [{"type": "input_image", "file_id": "file_1"}]},
            "input[1].content[0].file_id",
            "unsupported_parameter",
        ),
        (
            {"role": "user", "content": [{"type": "input_file", "file_url": "ftp://x.test"}]},
            "input[1].content[0].file_url",
            "unsupported_parameter",
        ),
        ({"role": "critic", "content": "x"}, "input[1].role", "invalid_value"),
        ({"role": "user", "content": 5}, "input[1].content", "invalid_type"),
        ({"role": 5}, "input[1].role", "invalid_type"),
    ],
)
def test_what_only_the_vendor_has_is_a_fault_with_its_place(item: Any, param: str, code: str) -> None:
    error = refusal_of(read, [USER, item])
    assert (error.param, error.code) == (param, code)


def test_a_call_in_a_namespace_has_its_flat_name() -> None:
    (found, _) = messages(call("a", "get", namespace="crm"))
    assert found["tool_calls"] == [chat_call("a", "crm__get")]


def test_a_custom_call_and_its_output() -> None:
    patch = '*** Begin\n"x" \\ é'
    given = {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": patch}
    found = messages(given, {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"})
    arguments = found[0]["tool_calls"][0]["function"]["arguments"]
    assert json.loads(arguments) == {"input": patch}
    assert found[1] == {"role": "tool", "tool_call_id": "a", "content": "ok"}


def test_a_search_for_tools_adds_what_it_found() -> None:
    new = {"type": "function", "name": "paint", "parameters": {"type": "object"}}
    items = [
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "paint"}},
        {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": [new]},
        {"type": "additional_tools", "role": "developer", "tools": [{**new, "name": "draw"}]},
    ]
    conversation, found = read(items)
    assert sorted(tool.name for tool in conversation.tools) == ["draw", "paint"]
    assert found[0]["tool_calls"] == [chat_call("s", "tool_search", '{"query": "paint"}')]
    assert json.loads(found[1]["content"]) == {"tools": ["paint"]}


def test_a_search_for_tools_also_finds_those_that_the_request_has() -> None:
    """Pydantic AI sends a found tool in both places. See https://platform.openai.com/docs/guides/tools-tool-search."""
    new = {"type": "function", "name": "paint", "parameters": {"type": "object"}}
    spaced = {"type": "namespace", "name": "art", "tools": [{**new, "name": "draw"}, {**new, "name": "erase"}]}
    items = [
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "paint"}},
        {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": [new, spaced]},
    ]
    conversation, found = read(items, tools=[{**new, "defer_loading": True}, spaced])
    assert sorted(tool.name for tool in conversation.tools) == ["art__draw", "art__erase", "paint"]
    assert json.loads(found[1]["content"]) == {"tools": ["paint", "art__draw", "art__erase"]}


def test_a_search_for_tools_by_the_vendor_is_text_and_its_tools_are_there() -> None:
    new = {"type": "function", "name": "paint", "parameters": {"type": "object"}}
    items = [
        {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {"query": "paint"}},
        {"type": "tool_search_output", "call_id": None, "execution": "server", "tools": [new]},
        USER,
    ]
    conversation, found = read(items)
    assert [tool.name for tool in conversation.tools] == ["paint"]
    assert found == [{"role": "assistant", "content": "[tool_search_call]\npaint\n\n[tool_search_output]"}, USER]


def test_the_clients_own_tools_and_their_outputs() -> None:
    found = messages(
        {"type": "local_shell_call", "id": "l", "call_id": "c1", "action": {"type": "exec", "command": ["ls"]}},
        {"type": "local_shell_call_output", "id": "c1", "output": "files"},
        {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c2", "output": [{"stdout": "x"}]},
        {"type": "apply_patch_call", "call_id": "c3", "operation": {"type": "delete_file", "path": "a"}},
        {"type": "apply_patch_call_output", "call_id": "c3", "status": "completed", "output": "gone"},
    )
    assert [one["content"] for one in found if one["role"] == "tool"] == [
        "files",
        '[{"stdout": "x"}]',
        "completed\ngone",
    ]
    names = [one["tool_calls"][0]["function"]["name"] for one in found if one["role"] == "assistant"]
    assert names == ["local_shell", "shell", "apply_patch"]


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (
            {
                "type": "web_search_call",
                "id": "ws",
                "status": "completed",
                "action": {"type": "search", "query": "tolls", "sources": [{"type": "url", "url": "https://y.test"}]},
                "results": [{"title": "T", "url": "https://x.test"}],
            },
            "[web_search_call]\ntolls\nhttps://y.test\nT\nhttps://x.test",
        ),
        (
            {"type": "mcp_call", "id": "mcp", "server_label": "s", "name": "f", "arguments": "{}", "output": "done"},
            "[mcp_call]\ns\nf\n{}\ndone",
        ),
        (
            {"type": "mcp_call", "id": "mcp", "server_label": "s", "name": "f", "output": None, "error": "boom"},
            "[mcp_call]\ns\nf\nboom",
        ),
        (
            {
                "type": "mcp_call",
                "id": "mcp",
                "name": "f",
                "error": {"type": "http_error", "code": 401, "message": "no"},
            },
            '[mcp_call]\nf\n{"type":"http_error","code":401,"message":"no"}',
        ),
        ({"type": "program_output", "id": "po", "call_id": "c", "result": "4"}, "[program_output]\n4"),
        (
            {"type": "image_generation_call", "id": "ig", "result": None, "revised_prompt": "a toll"},
            "[image_generation_call]\na toll",
        ),
        *(
            ({"type": "computer_call", "call_id": "c", **given}, f"[computer_call]\n{shown}")
            for given, shown in (
                ({"action": {"type": "click", "x": 1}}, '{"type":"click","x":1}'),
                ({"actions": [{"type": "wait"}]}, '[{"type":"wait"}]'),
            )
        ),
        ({"type": "mcp_approval_response", "approve": False, "reason": "no"}, "[mcp_approval_response]\nfalse\nno"),
    ],
)
def test_what_a_vendors_tool_did_is_reported_in_lines(item: dict[str, Any], line: str) -> None:
    assert messages(item) == [{"role": "assistant", "content": line}]


@pytest.mark.parametrize(
    ("item", "url"),
    [
        ({"type": "image_generation_call", "id": "ig", "result": "iVBORw0KGgo="}, "data:image/png;base64,iVBORw0KGgo="),
        ({"type": "image_generation_call", "id": "ig", "result": "https://x/a.png"}, "https://x/a.png"),
        (
            {"type": "computer_call_output", "call_id": "c", "output": {"image_url": "data:image/png;base64,AAAA"}},
            "data:image/png;base64,AAAA",
        ),
    ],
)
def test_the_picture_that_a_vendors_tool_made_is_shown(item: dict[str, Any], url: str) -> None:
    """A client that has an image changed sends the last one back with the items of the conversation."""
    conversation, found = read([USER, item, USER])
    picture = {"type": "image_url", "image_url": {"url": url}}
    asked = {"role": "user", "content": [picture, {"type": "text", "text": "go"}]}
    assert found == [USER, {"role": "assistant", "content": f"[{item['type']}]"}, asked]
    assert conversation.extras == ()


def test_what_another_agent_wrote_is_what_the_user_says() -> None:
    content = [{"type": "input_text", "text": "done"}, {"type": "encrypted_content", "encrypted_content": "gAAA"}]
    item = {"type": "agent_message", "author": "/root/a", "recipient": "/root", "content": content}
    conversation, found = read([item])
    assert found == [{"role": "user", "content": "[agent_message]\n/root/a\n/root\ndone"}]
    assert conversation.extras == ("input[].agent_message.encrypted_content",)


def test_the_last_update_of_the_configuration_counts() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}}
    updates = [
        {"type": "configuration_update", "reasoning": {"effort": "low"}, "text": {"format": form}},
        {"type": "configuration_update", "reasoning": {"effort": "high"}},
    ]
    body = {"model": "m", "input": [USER, *updates], "reasoning": {"effort": "medium", "summary": "auto"}}
    fields = {name: msgspec.Raw(json.dumps(value).encode()) for name, value in body.items()}
    order, _ = translate_responses(Order(fields=fields, model="m"))
    assert json.loads(bytes(order.fields["reasoning_effort"])) == "high"
    assert json.loads(bytes(order.fields["response_format"]))["json_schema"]["schema"] == {"type": "object"}


def test_unsendable_parts_are_named() -> None:
    cited = {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 0}
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": [cited]}]}
    screen = {"type": "computer_screenshot", "file_id": "file_1"}
    shown = {"type": "computer_call_output", "call_id": "c", "output": screen}
    calling = {"role": "assistant", "content": "", "tool_calls": [chat_call("x")]}
    forgotten = {"type": "image_generation_call", "id": "ig"}
    assert read([USER, said, calling, forgotten, shown])[0].extras == (
        "input[].annotations",
        "input[].tool_calls",
        "input[].image_generation_call.id",
        "input[].computer_call_output.output",
    )


def reasoning(seal: Seal | None = None, text: str = "") -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    sealed = "gAAAA-from-openai" if seal is None else seal_text(seal)
    return {"type": "reasoning", "id": "rs", "summary": summary, "encrypted_content": sealed}


def test_sealed_blocks_stand_on_the_message_that_follows() -> None:
    block = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    seal = Seal(SealKind.ANTHROPIC, json.dumps([block]).encode())
    conversation, found = read([USER, reasoning(seal), call("a"), output("a")])
    thought, made = conversation.turns[1].blocks
    assert isinstance(thought, ThoughtPart)
    assert ([json.loads(bytes(one)) for one in thought.signed], made.id) == ([block], "a")  # type: ignore[union-attr]
    assert found[1] == {"role": "assistant", "content": None, "tool_calls": [chat_call("a")]}


def test_thoughts_after_a_text_begin_another_message() -> None:
    seal = Seal(SealKind.ANTHROPIC, b'[{"type":"redacted_thinking","data":"x"}]')
    said = {"role": "assistant", "content": "first"}
    conversation, _ = read([reasoning(seal), said, reasoning(seal), call("a"), output("a")])
    kinds = [[type(block).__name__ for block in turn.blocks] for turn in conversation.turns[:2]]
    assert kinds == [["ThoughtPart", "TextPart"], ["ThoughtPart", "CallPart"]]


def test_geminis_signatures_are_on_their_calls() -> None:
    seal = Seal(SealKind.GEMINI, b'{"a":"sig"}')
    conversation, _ = read([reasoning(seal), call("a"), call("b"), output("a"), output("b")])
    assert [made.signature for made in conversation.turns[0].calls] == ["sig", ""]


def test_plain_reasoning_is_text_again() -> None:
    found = messages(reasoning(Seal(SealKind.PLAIN), "because"), call("a"), output("a"))
    assert found[0]["reasoning_content"] == "because"


def test_reasoning_of_another_gateway_or_vendor_is_left_out_and_named() -> None:
    conversation, found = read([reasoning(None, "secret"), USER])
    assert found == [USER]
    assert conversation.dropped_reasoning(lambda thought: thought.empty) == ["input[].reasoning"]


def test_reasoning_without_a_seal_is_text() -> None:
    """Model servers send it so."""
    open_text = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "b"}]}
    assert messages(open_text, call("a"), output("a"))[0]["reasoning_content"] == "b"
