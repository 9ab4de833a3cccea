"""The table of apps: the settings of each, and how it is started."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gateway.client.app import AppTarget, Launch, Snippet
from gateway.client.apps import APPS, UNKNOWN_PROGRAM, app_of_program, find_app, key_in, require_api
from gateway.client.connect_card import Shell
from gateway.domain.errors import NotFound
from tests.house import ROOT

KEY = "sk-tk-" + "k" * 43
URL = "http://127.0.0.1:8655/v1"
NASTY = "org/mo\"del:'free' ${x}"
MODELS = {"claude-opus-5": 200_000, NASTY: None, "qwen3": 32_000, "text-embedding-3": None}
TARGET = AppTarget(base_url=URL, key=KEY, model="qwen3", models=MODELS)
OTHERS = msgspec.structs.replace(TARGET, models={**MODELS, "bge-m3": None})
SHELLS: tuple[Shell, ...] = ("sh", "fish", "powershell")
EVERY = pytest.mark.parametrize("name", APPS)


def texts(name: str, target: AppTarget = TARGET, shell: Shell = "sh") -> str:
    return "\n".join(snippet.lines(shell) for snippet in APPS[name].setup(target).guide)


def files(name: str, target: AppTarget = TARGET) -> Iterator[Snippet]:
    return (snippet for snippet in APPS[name].setup(target).guide if snippet.is_file)


@EVERY
def test_every_app_gets_the_address_and_each_part_where_it_goes(name: str) -> None:
    snippets = APPS[name].setup(TARGET).guide
    assert TARGET.root in texts(name)
    assert all(snippet.place and snippet.lines(shell) for snippet in snippets for shell in SHELLS)


@EVERY
def test_without_a_key_there_is_a_placeholder(name: str) -> None:
    target = msgspec.structs.replace(TARGET, key="")
    assert KEY not in texts(name, target)
    assert "sk-tk-..." in texts(name, target) or name == "llm"  # which asks for it


@EVERY
def test_models_are_only_those_that_the_token_sees(name: str) -> None:
    target = msgspec.structs.replace(TARGET, model="demo-only", models={"demo-only": None})
    assert not [model for model in ("gpt-4", "gpt-5", "claude-", "qwen3", "llama3") if model in texts(name, target)]


@EVERY
def test_the_key_reaches_a_program_by_its_environment_or_a_file_and_never_by_an_argument(name: str) -> None:
    launch = APPS[name].launch_for(TARGET, Path("/tmp/x"))
    assert not [argument for argument in launch.arguments if KEY in argument]
    settings = str((launch.variables, launch.files, launch.arguments))
    assert KEY in settings or "TOLLKEEPER_TOKEN" in settings or name in ("cursor", "openclaw")  # a run sets it


@pytest.mark.parametrize("name", ["claude", "opencode", "kilo", "zed", "pi", "crush", "cline", "droid"])
def test_json_files_are_valid_whatever_a_model_is_called(name: str) -> None:
    target = msgspec.structs.replace(TARGET, model=NASTY)
    for file in files(name, target):
        assert repr(NASTY)[1:-1] in str(msgspec.json.decode(file.text))


def test_codex_gets_a_provider_that_speaks_responses() -> None:
    (file,) = files("codex", msgspec.structs.replace(TARGET, model=NASTY))
    found = tomllib.loads(file.text)
    assert (found["model"], found["model_provider"]) == (NASTY, "tollkeeper")
    assert found["model_providers"]["tollkeeper"] == {
        "name": "Tollkeeper",
        "base_url": URL,
        "env_key": "TOLLKEEPER_TOKEN",
        "wire_api": "responses",
        "request_max_retries": 0,
        "stream_max_retries": 1,
        "supports_websockets": True,
    }


@pytest.mark.parametrize(("model", "warned"), [("best", True), ("fast", False)])
def test_a_name_that_claude_code_has_itself_is_pointed_out(model: str, warned: bool) -> None:
    launch = APPS["claude"].launch_for(msgspec.structs.replace(TARGET, model=model), Path("/tmp/x"))
    assert (f"Claude Code replaces the name '{model}'" in launch.warning) is warned


def test_codex_is_started_with_the_same_as_overrides() -> None:
    launch = APPS["codex"].launch_for(TARGET, Path())
    overrides = "\n".join(value for option, value in zip(launch.arguments[::2], launch.arguments[1::2], strict=True))
    (file,) = files("codex")
    assert tomllib.loads(overrides) == {**tomllib.loads(file.text), "analytics": {"enabled": False}}
    assert "TOLLKEEPER_TOKEN" in overrides
    assert not launch.variables


def test_claude_code_gets_the_root_and_a_model_for_each_size() -> None:
    (shell, _) = APPS["claude"].setup(msgspec.structs.replace(TARGET, model="qwen3")).guide
    assert shell.variables["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:8655"
    assert shell.variables["ANTHROPIC_DEFAULT_OPUS_MODEL"] == "claude-opus-5"
    assert shell.variables["ANTHROPIC_DEFAULT_HAIKU_MODEL"] == "qwen3"
    assert shell.variables["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "32000"


def test_claude_code_is_not_left_to_assume_a_context_of_a_million_but_the_users_own_setting_counts() -> None:
    launch = APPS["claude"].launch_for(AppTarget(base_url="http://x/v1", model="m", models={"m": None}), Path())
    assert launch.defaults["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == "128000"
    assert "MAX_CONTEXT" not in str((launch.variables, launch.files))


def test_a_claude_model_keeps_its_own_sizes_and_header() -> None:
    (shell, _) = APPS["claude"].setup(msgspec.structs.replace(TARGET, model="claude-opus-5")).guide
    assert not {"CLAUDE_CODE_MAX_CONTEXT_TOKENS", "CLAUDE_CODE_ATTRIBUTION_HEADER"} & set(shell.variables)


@EVERY
def test_programs_in_python_are_valid(name: str) -> None:
    for file in files(name, msgspec.structs.replace(TARGET, model=NASTY)):
        if file.place.endswith("program") or "Python" in file.place:
            strings = [node.value for node in ast.walk(ast.parse(file.text)) if isinstance(node, ast.Constant)]
            assert any(NASTY in str(value) for value in strings)


def test_open_webui_gets_embeddings_only_if_there_are_some() -> None:
    assert "RAG_EMBEDDING_MODEL='text-embedding-3'" in texts("open-webui")
    assert "RAG_" not in texts("open-webui", msgspec.structs.replace(TARGET, models={"qwen3": None}))


@EVERY
def test_a_model_that_makes_embeddings_is_none_to_choose_for_a_conversation(name: str) -> None:
    shown = [part for part in ("text-embedding-3", "bge-m3") if part in texts(name, OTHERS)]
    assert shown == {"continue": ["text-embedding-3", "bge-m3"], "open-webui": ["text-embedding-3"]}.get(name, [])
    assert name == "ollama" or "bge-m3" in texts(name, msgspec.structs.replace(OTHERS, model="bge-m3"))


def test_claude_code_searches_its_tools_unless_its_user_says_otherwise() -> None:
    launch = APPS["claude"].launch_for(TARGET, Path("/tmp/x"))
    assert launch.defaults == {"ENABLE_TOOL_SEARCH": "true"}
    assert "ENABLE_TOOL_SEARCH" not in str(launch.variables) + str(launch.files)
    shell, file = APPS["claude"].setup(TARGET).guide
    assert shell.variables["ENABLE_TOOL_SEARCH"] == "true"
    assert msgspec.json.decode(file.text)["env"]["ENABLE_TOOL_SEARCH"] == "true"


@pytest.mark.parametrize("name", [name for name, app in APPS.items() if not app.programs])
def test_no_library_sends_traces_with_the_key_of_the_gateway(name: str) -> None:
    launch = APPS[name].launch_for(TARGET, Path("/tmp/x"))
    assert {**launch.defaults, **launch.variables}["OPENAI_AGENTS_DISABLE_TRACING"] == "1"


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("claude", "CLAUDE_CODE_USE_BEDROCK"),
        ("claude", "CLAUDE_CODE_USE_VERTEX"),
        ("copilot", "COPILOT_PROVIDER_BEARER_TOKEN"),
        ("copilot", "COPILOT_PROVIDER_WIRE_MODEL"),
    ],
)
def test_variables_that_would_lead_calls_elsewhere_are_removed(name: str, variable: str) -> None:
    launch = APPS[name].launch_for(TARGET, Path("/tmp/x"))
    assert launch.variables[variable] == ""
    assert variable not in str(APPS[name].setup(TARGET).guide)


def test_crush_gets_the_settings_in_the_folder_that_wins_over_those_of_the_user() -> None:
    launch = APPS["crush"].launch_for(TARGET, Path("/tmp/x"))
    assert (launch.variables["CRUSH_GLOBAL_DATA"], list(launch.files)) == ("/tmp/x", ["crush.json"])


def test_programs_are_started_without_reports_to_their_vendors() -> None:
    launches = {
        name: APPS[name].launch_for(TARGET, Path("/tmp/x"))
        for name in ("codex", "qwen-code", "pi", "crush", "kilo", "kimi", "mistral-vibe")
    }
    assert "analytics.enabled=false" in launches["codex"].arguments
    qwen = msgspec.json.decode(launches["qwen-code"].files["settings.json"])
    assert (qwen["privacy"], qwen["model"]) == ({"usageStatisticsEnabled": False}, {"name": "qwen3"})
    assert launches["pi"].defaults == {"PI_TELEMETRY": "0"}
    assert launches["crush"].defaults == {"CRUSH_DISABLE_METRICS": "1"}
    assert launches["kimi"].defaults == {"KIMI_DISABLE_TELEMETRY": "1"}
    assert launches["kilo"].defaults == {"KILO_TELEMETRY_LEVEL": "off"}
    assert launches["mistral-vibe"].variables["VIBE_ENABLE_TELEMETRY"] == "false"


def test_pi_reads_its_key_from_the_environment_whatever_its_version_takes_for_a_variable() -> None:
    extension = APPS["pi"].launch_for(TARGET, Path()).files["tollkeeper.js"]
    assert extension.endswith(", apiKey: process.env.TOLLKEEPER_TOKEN});\n")


def test_kilo_gets_the_settings_of_opencode_under_its_own_name() -> None:
    kilo, opencode = (APPS[name].launch_for(TARGET, Path()).variables for name in ("kilo", "opencode"))
    settings = msgspec.json.decode(opencode["OPENCODE_CONFIG_CONTENT"])
    assert msgspec.json.decode(kilo["KILO_CONFIG_CONTENT"]) == {
        **settings,
        "$schema": "https://app.kilo.ai/config.json",
    }


def test_droid_reads_a_file_of_the_run_and_the_key_from_the_environment() -> None:
    launch = APPS["droid"].launch_for(TARGET, Path("/tmp/x"))
    assert launch.variables == {"FACTORY_RUNTIME_SETTINGS_PATH": str(Path("/tmp/x/settings.json"))}
    settings = msgspec.json.decode(launch.files["settings.json"])
    assert settings["sessionDefaultSettings"] == {"model": "custom:qwen3"}
    assert settings["customModels"][-1] == {
        "model": "qwen3",
        "displayName": "qwen3",
        "provider": "generic-chat-completion-api",
        "baseUrl": URL,
        "apiKey": "${TOLLKEEPER_TOKEN}",
        "maxOutputTokens": 8000,
    }


def test_vibe_gets_its_provider_and_models_in_variables() -> None:
    variables = APPS["mistral-vibe"].launch_for(TARGET, Path()).variables
    (provider,) = msgspec.json.decode(variables["VIBE_PROVIDERS"])
    assert provider == {
        "name": "tollkeeper",
        "api_base": URL,
        "api_key_env_var": "TOLLKEEPER_TOKEN",
        "extra_headers": {"X-App": "Mistral Vibe"},
    }
    assert [model["name"] for model in msgspec.json.decode(variables["VIBE_MODELS"])] == [
        "claude-opus-5",
        NASTY,
        "qwen3",
    ]
    assert variables["VIBE_ACTIVE_MODEL"] == "qwen3"


def test_openhands_is_told_to_read_its_variables() -> None:
    launch = APPS["openhands"].launch_for(TARGET, Path())
    assert launch.arguments == ("--override-with-envs",)
    assert launch.variables == {"LLM_BASE_URL": URL, "LLM_API_KEY": KEY, "LLM_MODEL": "openai/qwen3"}


def test_openclaw_reads_the_key_from_the_environment_so_that_a_run_has_its_own() -> None:
    settings, key = APPS["openclaw"].setup(TARGET).guide
    provider = msgspec.json.decode(settings.text)["models"]["providers"]["tollkeeper"]
    assert (provider["baseUrl"], provider["apiKey"]) == (URL, "${TOLLKEEPER_TOKEN}")
    assert key.text == f"TOLLKEEPER_TOKEN={KEY}"
    assert not APPS["openclaw"].launch_for(TARGET, Path()).variables


def test_programs_for_ollama_get_an_address_with_the_key_in_it() -> None:
    url = f"http://127.0.0.1:8655/k/{KEY}"
    assert APPS[app_of_program("oterm")].launch_for(TARGET, Path()).variables == {"OLLAMA_HOST": url, "OLLAMA_URL": url}


def test_the_claude_agent_sdk_gets_the_variables_of_claude_code_and_no_argument() -> None:
    (shell, _), launch = APPS["claude"].setup(TARGET).guide, APPS["claude-agent-sdk"].launch_for(TARGET, Path())
    assert (shell.variables.items() <= launch.variables.items(), launch.arguments) == (True, ())


@pytest.mark.parametrize(
    ("name", "allowed"),
    [
        ("opencode", '"image"'),
        ("continue", "capabilities: [tool_use, image_input]"),
        ("crush", '"supports_attachments": true'),
        ("zed", '"images": true'),
        ("llm", "vision: true"),
    ],
)
def test_a_program_that_asks_what_a_model_can_do_learns_that_it_sees_images(name: str, allowed: str) -> None:
    assert allowed in texts(name)


def test_copilot_knows_the_size_of_the_context() -> None:
    variables = APPS["copilot"].launch_for(TARGET, Path()).variables
    assert (variables["COPILOT_PROVIDER_BASE_URL"], variables["COPILOT_MODEL"]) == (URL, "qwen3")
    assert variables["COPILOT_PROVIDER_MAX_PROMPT_TOKENS"] == "24000"
    assert variables["COPILOT_PROVIDER_MAX_OUTPUT_TOKENS"] == "8000"


def test_cline_reads_a_file_of_the_run() -> None:
    launch = APPS["cline"].launch_for(TARGET, Path("/tmp/x"))
    assert launch.variables == {
        "CLINE_PROVIDER_SETTINGS_PATH": str(Path("/tmp/x/providers.json")),
        "CLINE_SESSION_BACKEND_MODE": "local",
        "CLINE_HUB_DISCOVERY_PATH": str(Path("/tmp/x/hub.json")),
    }
    settings = msgspec.json.decode(launch.files["providers.json"])
    assert settings["providers"][settings["lastUsedProvider"]]["settings"] == {
        "provider": "openai-compatible",
        "apiKey": KEY,
        "model": "qwen3",
        "baseUrl": URL,
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *((name, "Gemini CLI speaks only") for name in ("gemini", "/usr/bin/gemini", "gemini.cmd", "Gemini-CLI")),
        *((name, "Google's Gen AI SDK speaks only") for name in ("google-genai", "genai")),
        *((name, "this program calls only the servers of its vendor") for name in ("amp", "@augmentcode/auggie")),
    ],
)
def test_a_program_that_speaks_no_api_of_the_gateway_is_refused(name: str, reason: str) -> None:
    with pytest.raises(NotFound, match=reason):
        require_api(name)
    with pytest.raises(NotFound, match=reason):
        find_app(name)


@pytest.mark.parametrize(("program", "title"), [("sgpt", "ShellGPT"), ("cn", "Continue"), ("qwen", "Qwen Code")])
def test_an_app_is_also_found_by_the_name_of_its_program(program: str, title: str) -> None:
    assert find_app(program).title == title


def test_aider_gets_variables_that_win_over_its_files() -> None:
    variables = APPS["aider"].launch_for(TARGET, Path()).variables
    assert variables["AIDER_OPENAI_API_KEY"] == KEY
    assert not {"OPENAI_API_KEY", "OPENAI_API_BASE"} & set(variables)
    launch = APPS["aider"].launch_for(TARGET, Path("/tmp/x"))
    assert launch.arguments == ("--env-file", "/tmp/x/aider.env")  # the last of its .env files
    assert f'OPENAI_BASE_URL="{URL}"' in launch.files["aider.env"].splitlines()


def test_open_webui_keeps_no_key_of_a_run() -> None:
    launch = APPS["open-webui"].launch_for(TARGET, Path())
    assert launch.variables["ENABLE_PERSISTENT_CONFIG"] == "False"
    assert "tollkeeper env --for open-webui" in launch.warning
    assert not [one for one in APPS["open-webui"].setup(TARGET).guide if "ENABLE_PERSISTENT_CONFIG" in one.variables]


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("/usr/bin/claude", "claude"),
        ("C:/x/Codex.cmd", "codex"),
        ("cn", "continue"),
        ("kilocode", "kilo"),
        ("vibe", "mistral-vibe"),
        ("vi", ""),
    ],
)
def test_programs_are_recognized_by_their_names(program: str, name: str) -> None:
    assert app_of_program(program) == name


def test_any_other_program_gets_what_sdks_read() -> None:
    assert UNKNOWN_PROGRAM.launch_for(TARGET, Path()) == Launch(
        variables={
            "OPENAI_BASE_URL": URL,
            "OPENAI_API_KEY": KEY,
            "OPENAI_API_BASE": URL,
            "ANTHROPIC_BASE_URL": "http://127.0.0.1:8655",
            "ANTHROPIC_API_KEY": KEY,
            "ANTHROPIC_AUTH_TOKEN": "",
        },
        defaults={"OPENAI_AGENTS_DISABLE_TRACING": "1"},
    )


@pytest.mark.parametrize("name", [name for name, app in APPS.items() if not app.programs])
def test_a_program_of_any_sdk_gets_no_less_when_its_app_is_named(name: str) -> None:
    assert (
        UNKNOWN_PROGRAM.launch_for(TARGET, Path()).variables.keys()
        <= APPS[name].launch_for(TARGET, Path()).variables.keys()
    )


@pytest.mark.parametrize("name", ["pydantic-ai", "langchain"])
def test_programs_for_several_vendors_get_the_variables_of_both_sdks(name: str) -> None:
    assert "ANTHROPIC_API_KEY" in texts(name)


@EVERY
def test_the_documents_page_shows_what_is_printed(name: str) -> None:
    page = (ROOT / "docs/apps.md").read_text(encoding="utf-8")
    target = AppTarget(base_url=URL, model="demo-echo", models={"demo-echo": None})
    assert f"\n## {APPS[name].title}\n" in page
    assert [
        snippet.place for snippet in APPS[name].setup(target).guide if f"\n{snippet.lines('sh')}\n" not in page
    ] == []


def test_a_key_in_the_environment_counts_if_it_is_one_of_ours() -> None:
    own, theirs = {"OPENAI_API_KEY": "sk-tk-own"}, {"OPENAI_API_KEY": "sk-proj-theirs"}
    assert [key_in(one) for one in ({}, own, theirs, {**own, "TOLLKEEPER_TOKEN": "laptop"})] == [
        *("", "sk-tk-own", ""),
        "laptop",
    ]
