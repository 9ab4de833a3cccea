"""Apps: where common programs want the base URL and the key. Names in capitals are to be filled in."""

from collections.abc import Sequence

APPS: Sequence[tuple[str, str]] = (
    ("Open WebUI", "Admin Panel > Settings > Connections > OpenAI API: URL {url}, key KEY"),
    ("Cline, Roo Code", "API Provider OpenAI Compatible: Base URL {url}, API Key KEY, Model ID {model}"),
    ("Continue", "config.yaml: provider: openai, apiBase: {url}, apiKey: KEY, model: {model}"),
    ("Aider", "aider --openai-api-base {url} --openai-api-key KEY --model openai/{model}"),
    ("LangChain", 'ChatOpenAI(base_url="{url}", api_key="KEY", model="{model}")'),
    ("llm", "extra-openai-models.yaml: model_id: {model}, model_name: {model}, api_base: {url}"),
    ("others", "an OpenAI compatible provider: base URL {url}, any program that reads OPENAI_BASE_URL"),
)


def guide(url: str, model: str) -> str:
    """A line a program."""
    width = max(len(name) for name, _ in APPS)
    return "\n".join(f"{name:<{width}}  {text.format(url=url, model=model)}" for name, text in APPS)
