"""Translation: what a Messages request becomes for channels that speak something else."""

import json
from typing import Any

import msgspec
import pytest

from gateway.domain.answer import Seal, SealKind, seal_text
from gateway.domain.channel import Dialect, Overrides
from gateway.domain.conversation import TextPart
from gateway.domain.errors import BadRequest
from gateway.domain.media_size import PromptMedia
from gateway.domain.order import Order
from gateway.domain.prompt_size import BOUND_DATED_TOOL, BOUND_TOOLS_TOKENS
from gateway.domain.units import CallId, Millis
from gateway.inbound.api import HttpRequest, InboundRequest
from gateway.inbound.chat.conversation import finish_translation
from gateway.inbound.messages.api import MESSAGES, session_of
from gateway.inbound.messages.conversation import translate_messages
from gateway.upstream.dialects import new_adapter
from tests.fakes.replies import Doc, dumps
from tests.refusals import refusal_of
from tests.upstream.makers import channel, request_of

HELLO = [{"role": "user", "content": "Hi"}]


def parsed(**fields: Any) -> InboundRequest:
    return request_of(MESSAGES, {"max_tokens": 100, "messages": HELLO, **fields})


def translation(*, preset: str = "", dialect: Dialect = Dialect.OPENAI, **fields: Any) -> Order:
    return put_to(parsed(**fields), preset=preset, dialect=dialect)


def put_to(request: InboundRequest, **at: Any) -> Order:
    """The request as a channel gets it."""
    order = translate_messages(MESSAGES.order(request, CallId("req_0123456789abcdef01234567"), Millis(0)))
    target = channel(**at)
    return finish_translation(order, target, new_adapter(target.dialect))


def translated(*, preset: str = "", dialect: Dialect = Dialect.OPENAI, **fields: Any) -> Doc:
    """The chat completion request."""
    found = translation(preset=preset, dialect=dialect, **fields).fields
    doc = msgspec.json.decode(msgspec.json.encode(found))
    assert isinstance(doc, dict)
    return doc


def turns(*messages: Doc, **more: Any) -> list[Doc]:
    found = translated(messages=list(messages), **more)["messages"]
    assert isinstance(found, list)
    return found


def user(*content: Any) -> Doc:
    return {"role": "user", "content": list(content)}


def assistant(*content: Any) -> Doc:
    return {"role": "assistant", "content": list(content)}


def text(said: str, **more: Any) -> Doc:
    return {"type": "text", "text": said, **more}


def result(*content: Any, **more: Any) -> Doc:
    return {"type": "tool_result", "tool_use_id": "t1", "content": list(content), **more}


MADE = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
"""The call whose result ``result`` is."""


def use(name: str = "f", **given: Any) -> Doc:
    return {"type": "tool_use", "id": "t1", "name": name, "input": given}


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}}
IMAGE_PART = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
BILLING = "x-anthropic-billing-header: cc_version=2.1; cc_entrypoint=cli;"


def test_a_plain_request() -> None:
    assert translated(temperature=0.5, top_p=1, top_k=3) == {
        "model": "m",
        "messages": HELLO,
        "max_completion_tokens": 100,
        "temperature": 0.5,
        "top_p": 1,
        "top_k": 3,
    }


@pytest.mark.parametrize(
    ("system", "said"),
    [
        ("You are", "You are"),
        ([text(BILLING), text("You are"), text("brief.", cache_control={"type": "ephemeral"})], "You are\n\nbrief."),
        ([text(BILLING + "\nYou are")], "You are"),
        ([text("You are"), text(BILLING)], "You are\n\n" + BILLING),
    ],
)
def test_system_texts_become_one_message_without_the_billing_line(system: Any, said: str) -> None:
    assert translated(system=system)["messages"][0] == {"role": "system", "content": said}


def test_a_system_message_may_end_with_the_users_turn() -> None:
    """Its effort does so always, its text if it says so."""
    low, high = (
        {"role": "system", "content": word, "clear_at": "next_user_message", "output_config": {"effort": word}}
        for word in ("low", "high")
    )
    kept = {**low, "content": "kept", "clear_at": "never"}
    found = translated(messages=[*HELLO, low, kept, assistant(text("a")), *HELLO, high])
    assert [turn["content"] for turn in found["messages"]] == ["Hi", "kept", "a", "Hi", "high"]
    assert found["reasoning_effort"] == "high"
    assert "reasoning_effort" not in translated(messages=[*HELLO, low, *HELLO])


def test_a_local_server_gets_it_at_the_top() -> None:
    inner = {"role": "system", "content": [text("now")]}
    found = turns(*HELLO, inner, system="You are", preset="llamacpp")
    assert found == [{"role": "system", "content": "You are\n\nnow"}, *HELLO]
    assert turns(*HELLO, inner, preset="llamacpp") == [{"role": "system", "content": "now"}, *HELLO]


def test_cache_marks_go_where_they_are_understood() -> None:
    marked = text("a", cache_control={"type": "ephemeral", "ttl": "1h"})
    assert turns(user(marked), preset="openrouter") == [user(marked)]
    mark = {"cache_control": {"type": "ephemeral"}}
    sent = translated(messages=[MADE, user(result(text("b"), **mark))], tools=[{**TOOL, **mark}], preset="openrouter")
    assert sent["messages"][1]["content"] == [text("b", **mark)]
    assert sent["tools"][0]["cache_control"] == mark["cache_control"]
    plain = translation(messages=[user(marked)], cache_control={"type": "ephemeral"})
    assert json.loads(bytes(plain.fields["messages"])) == [{"role": "user", "content": "a"}]
    assert plain.removed == ("cache_control",)


def test_results_come_first_and_each_is_a_message() -> None:
    calls = [use(), {**use(), "id": "t2"}]
    second = {**result(text("b")), "tool_use_id": "t2"}
    assert turns(assistant(*calls), user(text("so"), result(text("a")), second))[1:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "a"},
        {"role": "tool", "tool_call_id": "t2", "content": "b"},
        {"role": "user", "content": "so"},
    ]


def test_a_failed_result_with_an_image() -> None:
    assert turns(MADE, user(result(text("no"), IMAGE, is_error=True)))[1:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "Error: no\n\n[image of tool result t1]"},
        user(IMAGE_PART),
    ]
    (_, only) = turns(MADE, user(result(text("Error: x"), is_error=True)))
    assert only["content"] == "Error: x"


def test_calls_keep_the_bytes_of_their_input() -> None:
    body = b'{"model":"m","max_tokens":9,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1",'
    body += b'"name":"f","input":{ "n": 1.0e2, "s":"\\u00e9" }}]}]}'
    request = request_of(MESSAGES, body)
    turn, _ = json.loads(bytes(put_to(request).fields["messages"]))
    function = {"name": "f", "arguments": '{ "n": 1.0e2, "s":"\\u00e9" }'}
    assert turn == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "t1", "type": "function", "function": function}],
    }


def test_documents_and_other_blocks_become_what_text_they_have() -> None:
    pdf = {
        "type": "document",
        "title": "a.pdf",
        "context": "The pdf's",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="},
    }
    source = {"type": "text", "media_type": "text/plain", "data": "body"}
    plain = {"type": "document", "title": "T", "context": "C", "source": source}
    inner = {"type": "document", "source": {"type": "content", "content": [text("in")]}}
    found = {"type": "search_result", "title": "T", "source": "http://x", "content": [text("hit")]}
    server = {
        "type": "web_search_tool_result",
        "tool_use_id": "s",
        "content": [{"type": "web_search_result", "url": "u", "title": "Tolls", "encrypted_content": "secret"}],
    }
    made = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "tolls"}}
    page = {"type": "document", "title": "P", "source": {"type": "text", "media_type": "text/plain", "data": "page"}}
    fetched = {"type": "web_fetch_tool_result", "content": {"type": "web_fetch_result", "url": "v", "content": page}}
    ran = {"type": "code_execution_tool_result", "content": {"type": "code_execution_result", "stdout": "4"}}
    wrote = {
        "type": "server_tool_use",
        "name": "text_editor_code_execution",
        "input": {"command": "create", "path": "/a.py", "file_text": "print(4)"},
    }
    view = {"type": "text_editor_code_execution_view_result", "file_type": "text", "content": "print(4)"}
    viewed = {"type": "text_editor_code_execution_tool_result", "tool_use_id": "t", "content": view}
    lines = {"type": "text_editor_code_execution_str_replace_result", "lines": ["-a", "+b"]}
    edited = {"type": "text_editor_code_execution_tool_result", "content": lines}
    summary = {"type": "compaction", "content": "So far"}
    asked = {"type": "mcp_tool_use", "id": "m", "server_name": "s", "name": "look", "input": {"at": "x"}}
    (turn,) = turns(user(pdf, plain, inner, found, made, server, fetched, ran, wrote, viewed, edited, summary, asked))
    file = {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="}
    assert turn["content"] == [
        text("The pdf's"),
        {"type": "file", "file": file},
        *map(
            text,
            (
                *("T\n\nC\n\nbody", "in", "T\n\nhttp://x\n\nhit", "[server_tool_use web_search]\n\ntolls"),
                *("[web_search_tool_result]\n\nu\n\nTolls", "[web_fetch_tool_result]\n\nv\n\nP\n\npage"),
                "[code_execution_tool_result]\n\n4",
                "[server_tool_use text_editor_code_execution]\n\ncreate\n\n/a.py\n\nprint(4)",
                *(f"[text_editor_code_execution_tool_result]\n\n{text}" for text in ("print(4)", "-a\n\n+b")),
                *("[compaction]\n\nSo far", '[mcp_tool_use s look]\n\n{"at":"x"}'),
            ),
        ),
    ]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
        {"type": "document", "source": {"type": "url", "url": "https://x"}},
    ],
)
def test_what_only_the_vendor_can_open_is_refused(block: Doc) -> None:
    with pytest.raises(BadRequest, match=r"no counterpart|does not fetch"):
        turns(user(block))


@pytest.mark.parametrize(
    ("source", "url"),
    [
        ({"type": "url", "url": "data:image/png;base64,QQ=="}, "data:image/png;base64,QQ=="),
        ({"type": "base64", "media_type": "image/jpg", "data": "QQ=="}, "data:image/jpeg;base64,QQ=="),
        ({"type": "base64", "media_type": "image/jpeg", "data": "iVBORw0KGgo="}, "data:image/png;base64,iVBORw0KGgo="),
        ({"type": "base64", "data": "iVBORw0KGgo="}, "data:image/png;base64,iVBORw0KGgo="),
        ({"type": "base64", "media_type": None, "data": "/9j/4AAQSkZJRg=="}, "data:image/jpeg;base64,/9j/4AAQSkZJRg=="),
    ],
)
def test_images_in_odd_spellings(source: Doc, url: str) -> None:
    (turn,) = turns(user({"type": "image", "source": source}))
    assert turn["content"] == [{"type": "image_url", "image_url": {"url": url}}]


def test_an_image_of_unknown_type_is_refused_by_the_name_of_its_field() -> None:
    with pytest.raises(BadRequest, match="or an https: URL") as caught:
        turns(user({"type": "image", "source": {"type": "base64", "data": "QUJD"}}))
    assert caught.value.message.startswith("messages.0.content.0.source.data: must be a base64 data: URL with its ")


def test_images_in_documents_and_of_the_assistant_are_shown_by_the_user() -> None:
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
    shown = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QQ=="}}
    document = {"type": "document", "source": {"type": "content", "content": [text("in"), picture]}}
    assert turns(assistant(text("a"), picture), user(document)) == [
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": [shown, {"type": "text", "text": "in"}, shown]},
    ]


def test_a_block_of_another_kind_is_its_text_or_named() -> None:
    (turn,) = turns(user({"type": "note", "text": "abc"}))
    assert turn["content"] == "[note]\n\nabc"
    order = translation(messages=[user({"type": "container_upload", "file_id": "f"})])
    assert order.removed == ("messages[].container_upload",)


def test_a_picture_in_a_system_text_is_named() -> None:
    for fields in (
        {"system": [text("a"), IMAGE]},
        {"messages": [{"role": "system", "content": [IMAGE]}, {"role": "user", "content": "Hi"}]},
    ):
        assert translation(**fields).removed == ("system[].image",)


@pytest.mark.parametrize("odd", [{"id": None}, {}, {"id": 7}, {"id": ""}])
def test_calls_without_a_proper_id_have_their_results(odd: Doc) -> None:
    made = {"type": "tool_use", "name": "f", "input": {}, **odd}
    found = {"type": "tool_result", "content": "r", **{f"tool_use_{name}": value for name, value in odd.items()}}
    calling, answer = turns(assistant(made), user(found))
    assert answer == {"role": "tool", "tool_call_id": calling["tool_calls"][0]["id"], "content": "r"}


SIGNED = {"type": "thinking", "thinking": "Hm", "signature": "EqQB"}


def sealed(kind: SealKind, content: bytes = b"") -> Doc:
    return {**SIGNED, "signature": seal_text(Seal(kind, content))}


def test_a_vendors_thoughts_go_to_no_other() -> None:
    assert turns(assistant(SIGNED, {"type": "redacted_thinking", "data": "x"}, text("a"))) == [
        {"role": "assistant", "content": "a"}
    ]


def test_thoughts_of_ours_go_back_as_reasoning_where_that_is_understood() -> None:
    history = assistant(sealed(SealKind.PLAIN), text("a"))
    assert turns(history)[0]["reasoning_content"] == "Hm"
    assert "reasoning_content" not in turns(history, preset="openai")[0]


def test_googles_signatures_go_back_to_google_alone() -> None:
    history = assistant(sealed(SealKind.GEMINI, b'{"t1":"sig"}'), use())
    conversation = translation(messages=[history], dialect=Dialect.GEMINI).conversation
    assert conversation is not None
    assert [call.signature for call in conversation.turns[0].calls] == ["sig"]
    assert "extra_content" not in turns(history)[0]["tool_calls"][0]
    google = turns(history, preset="gemini-openai")[0]["tool_calls"][0]
    assert google["extra_content"] == {"google": {"thought_signature": "sig"}}


TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": True}
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}, "strict": True}


def test_tools_and_the_choice_among_them() -> None:
    found = translated(tools=[TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert found["tools"] == [{"type": "function", "function": FUNCTION}]
    assert (found["tool_choice"], found["parallel_tool_calls"]) == ("required", False)


@pytest.mark.parametrize(
    ("choice", "chat"),
    [
        ({"type": "auto"}, "auto"),
        ({"type": "none"}, "none"),
        ({"type": "tool", "name": "f"}, {"type": "function", "function": {"name": "f"}}),
    ],
)
def test_each_tool_choice_becomes_a_chats(choice: Doc, chat: object) -> None:
    assert translated(tools=[TOOL], tool_choice=choice)["tool_choice"] == chat


def test_a_long_name_is_shortened_everywhere() -> None:
    name = "mcp__server__" + "x" * 100
    sent = translated(
        tools=[{**TOOL, "name": name}],
        tool_choice={"type": "tool", "name": name},
        messages=[*HELLO, assistant(use(name))],
    )
    (tool,), turn = sent["tools"], sent["messages"][1]
    short = tool["function"]["name"]
    assert len(short) == 64
    assert [turn["tool_calls"][0]["function"]["name"], sent["tool_choice"]["function"]["name"]] == [short, short]


def change(kind: str, tool: Doc) -> Doc:
    return {"role": "system", "content": [{"type": kind, "tool": tool}]}


def test_tools_that_are_added_and_removed_on_the_way() -> None:
    added = {"type": "tool_definition", "definition": {**TOOL, "name": "late"}}
    gone, back = ({"type": "tool_reference", "name": name} for name in ("f", "g"))
    toolset = {"type": "mcp_toolset_reference", "server_name": "s"}
    changes = [each for tool in (back, toolset) for each in change("tool_removal", tool)["content"]]
    summary = {"type": "compaction", "content": "So far", "tool_changes": changes}
    found = translated(
        tools=[TOOL, {**TOOL, "name": "g"}],
        messages=[
            *(*HELLO, change("tool_removal", gone), user(summary), assistant(text("a"))),
            *(change("tool_addition", added), user(*change("tool_addition", back)["content"]), user(text("b")), user()),
        ],
    )
    assert [tool["function"]["name"] for tool in found["tools"]] == ["late", "g"]
    assert [turn["content"] for turn in found["messages"]] == ["Hi", "[compaction]\n\nSo far", "a", "b", ""]


def test_citations_and_examples_are_named() -> None:
    cited = text("a", citations=[{"type": "web_search_result_location", "url": "https://a.example"}])
    found = translation(messages=[*HELLO, assistant(cited)], tools=[{**TOOL, "input_examples": [{"x": 1}]}])
    assert found.removed == ("tools[].input_examples", "messages[].citations")


def test_tools_that_the_vendor_runs() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    found = translation(
        tools=[
            {**TOOL, "allowed_callers": ["x"], "defer_loading": True},
            {**TOOL, "name": "other", "news": 1, "allowed_callers": []},
            search,
            {"type": "new_20300101", "name": "new", "max_uses": 5},
        ]
    )
    assert found.removed == ("tools.web_search", "tools.new", "tools[].allowed_callers", "tools[].news")
    for more in ({"tools": [search]}, {"tools": [TOOL, search], "tool_choice": {"type": "tool", "name": "web_search"}}):
        with pytest.raises(BadRequest, match="web_search"):
            translation(**more)


def test_a_function_needs_a_name() -> None:
    assert refusal_of(translation, tools=[{"type": "function", "function": {"name": "f"}}]).param == "tools.0.name"


def test_tools_that_the_client_runs_get_their_schema() -> None:
    kinds = [("bash_20250124", "bash"), ("text_editor_20250728", "edit"), ("memory_20250818", "memory")]
    found = translated(tools=[{"type": kind, "name": name} for kind, name in kinds])["tools"]
    assert [tool["function"]["name"] for tool in found] == [name for _, name in kinds]
    assert all(tool["function"]["parameters"]["properties"]["command"] for tool in found)
    with pytest.raises(BadRequest, match="computer"):
        translated(tools=[{"type": "computer_20250124", "name": "computer"}])


def test_a_schema_that_is_written_out_is_held_for() -> None:
    memory = {"type": "memory_20250818", "name": "memory"}
    with_tool, in_messages = {"tools": [memory]}, {"content": [{"type": "tool_addition", "tool": memory}]}
    for body in (
        json.dumps({"messages": [{"role": "user", "content": "Hi"}], **with_tool}),
        json.dumps({"messages": [{"role": "user", "content": "Hi"}], **with_tool}).replace("_2025", r"\u005f2025"),
        json.dumps({"messages": [{"role": "system", **in_messages}]}),
        json.dumps({"messages": [{"role": "system", **in_messages}]}).replace("_", r"\u005f"),
    ):
        text = '{"model":"m","max_tokens":9,' + body.removeprefix("{")
        request = MESSAGES.parse(HttpRequest(body=text.encode(), target="", headers={}, repeats={}))
        assert request.bound.tokens > BOUND_TOOLS_TOKENS + BOUND_DATED_TOOL
    with pytest.raises(BadRequest, match="memory"):
        translated(tools=[{"type": "memory_2", "name": "memory"}])


def test_what_is_said_about_citations_is_held_for() -> None:
    """A recorded request of this kind, of 790 bytes, had 683 input tokens."""
    document = {
        "type": "document",
        "source": {"type": "text", "media_type": "text/plain", "data": "Rust is fast. " * 20},
    }
    for fields, least in (({}, 0), ({"citations": {"enabled": True}}, 683)):
        messages = [{"role": "user", "content": [{**document, **fields}, {"type": "text", "text": "Cite it."}]}]
        bound = request_of(MESSAGES, {"max_tokens": 9, "messages": messages}).bound.tokens
        assert least <= bound < least + 200


def test_openai_takes_four_stop_sequences() -> None:
    stops = list("abcdef")
    found = translation(stop_sequences=stops, preset="openai")
    assert (json.loads(bytes(found.fields["stop"])), found.removed) == (stops[:4], ("stop_sequences",))
    assert translated(stop_sequences=stops)["stop"] == stops


@pytest.mark.parametrize(
    ("thinking", "effort", "word"),
    [
        ({"type": "disabled"}, "high", "none"),
        ({"type": "between_tools"}, "high", "none"),
        ({"type": "enabled", "budget_tokens": 500}, None, "low"),
        ({"type": "enabled", "budget_tokens": 4096}, None, "medium"),
        ({"type": "enabled", "budget_tokens": 16_000}, "low", "high"),
        ({"type": "adaptive"}, "medium", "medium"),
        ({"type": "adaptive"}, "max", "max"),
        ({"type": "adaptive"}, None, None),
        (None, "low", "low"),
    ],
)
def test_thinking_becomes_an_effort(thinking: Doc | None, effort: str | None, word: str | None) -> None:
    config = None if effort is None else {"effort": effort}
    assert translated(thinking=thinking, output_config=config).get("reasoning_effort") == word


def test_a_form_of_the_answer() -> None:
    form = {"type": "json_schema", "schema": {"type": "object"}}
    wanted = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}
    assert translated(output_config={"format": form})["response_format"] == wanted
    assert translated(output_format=form)["response_format"] == wanted


def test_openai_sees_a_digest_of_the_user() -> None:
    user_id = json.dumps({"device_id": "canary", "session_id": "11111111-2222"})
    found = translated(metadata={"user_id": user_id}, service_tier="standard_only", top_k=1, preset="openai")
    assert (len(found["safety_identifier"]), found["service_tier"], "top_k" in found) == (32, "default", False)
    other = translation(metadata={"user_id": user_id}, service_tier="auto")
    assert other.fields.keys() == {"model", "messages", "max_completion_tokens"}
    assert other.removed == ("metadata", "service_tier")


@pytest.mark.parametrize(
    ("headers", "user_id", "session"),
    [
        ({"x-claude-code-session-id": "s1"}, "x_session_11111111", "s1"),
        ({}, '{"session_id":"s2"}', "s2"),
        ({}, "user_a_account__session_11111111-2222", "11111111-2222"),
        ({"session-id": "s3"}, "somebody", "s3"),
        ({}, "{broken", ""),
        ({}, '{"session_id":"s4","x":[%s1]}' % ("[]," * 300_000), "s4"),
        ({}, '{"session_id":"s5","x":[%s1]}' % ("[]," * 350_000), ""),  # 9 million of them took 700 MB of memory
    ],
)
def test_the_clients_name_of_a_conversation(headers: dict[str, str], user_id: str, session: str) -> None:
    assert session_of(headers, {"metadata": msgspec.Raw(dumps({"user_id": user_id}))}) == session


def test_lost_fields_are_named_or_refused() -> None:
    found = translation(context_management={"edits": []}, betas=["x"], speed="fast", container=None, metadata={"a": 1})
    assert found.removed == ("metadata", "context_management", "betas", "speed")
    for more in (
        {"mcp_servers": [{"url": "x"}]},
        {"container": {"skills": [1]}},
        {"compaction": {"type": "summarize"}},
    ):
        with pytest.raises(BadRequest, match="anthropic"):
            translation(**more)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages[0]"),
        ({"messages": "x"}, "messages"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"model": 7}, "model"),
        ({"stream": "yes"}, "stream"),
        ({"system": [[1, 2]]}, "system[0]"),  # as tokens it could have more than its text
        # these only a translation meets
        ({"messages": [user({"type": 7})]}, "messages.0.content[0].type"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"tools": {}}, "tools"),
        ({"tools": [TOOL], "tool_choice": {"type": "some"}}, "tool_choice.type"),
    ],
)
def test_a_fault_names_its_field(fields: Doc, param: str) -> None:
    assert refusal_of(translation, **fields).param == param


def test_the_owners_parameters_tools_and_system_prompt_are_in_a_translated_request() -> None:
    tool = {"type": "function", "function": {"name": "own"}}
    edits = Overrides(system="Be brief.", set={"temperature": 0.5, "tools": [tool]}, remove=("top_p",))
    for dialect in (Dialect.OPENAI, Dialect.GEMINI):
        order = put_to(parsed(system="S", top_p=0.1, tools=[TOOL]), dialect=dialect, overrides=edits)
        conversation = order.conversation
        assert conversation is not None
        assert [bytes(part.raw) for part in conversation.turns[0].parts if isinstance(part, TextPart)] == [
            b'"Be brief."',
            b'"S"',
        ]
        assert ([tool.name for tool in conversation.tools], bytes(order.fields["temperature"])) == (["own"], b"0.5")
        assert order.removed == ("top_p",)


def test_the_owners_system_prompt_may_replace_the_clients() -> None:
    edits = Overrides(system="Be brief.", replace_system=True)
    found = put_to(parsed(system="S"), overrides=edits)
    assert json.loads(bytes(found.fields["messages"]))[0] == {"role": "system", "content": "Be brief."}


def test_the_owners_default_tools_are_for_clients_that_send_none() -> None:
    tool = {"type": "function", "function": {"name": "own"}}
    edits = Overrides(default={"tools": [tool], "tool_choice": "none"})
    for given, names in (([TOOL], ["f"]), ([], ["own"])):
        found = json.loads(bytes(put_to(parsed(tools=given), overrides=edits).fields["tools"]))
        assert [tool["function"]["name"] for tool in found] == names


def test_an_image_in_the_form_of_chats_is_held_for() -> None:
    part = {"type": "image_url", "image_url": {"url": "https://a.example/a.png"}}
    assert parsed(messages=[{"role": "user", "content": [part]}]).bound.media == PromptMedia(pictures=1)


def test_a_system_text_is_held_for_as_a_message() -> None:
    text = "x" * 298  # 100 tokens with its quotes
    asked = [{"role": "user", "content": text}]
    assert parsed(messages=asked, system=text).bound.tokens == parsed(messages=asked).bound.tokens + 100 + 4
