"""Config: a client's wishes about the answer as Gemini's ``generationConfig``."""

from typing import Any

from gateway.upstream import rawjson
from gateway.upstream.chat.request import Request
from gateway.upstream.gemini.rows import LEVELS, Row, Thinking

_EFFORTS = {"minimal": 0, "low": 1, "medium": 2, "high": 3, "xhigh": 3, "max": 3}
"""The level of each word, as an index of ``LEVELS``."""
_BUDGETS = {1: 1024, 2: 8192, 3: 24576}
"""Tokens by level; Google's own numbers for its compatible surface."""


def config_of(request: Request, row: Row, cap: int | None, dropped: list[str]) -> dict[str, Any]:
    """The config with this output limit; adds to ``dropped`` what the model does not take."""
    out: dict[str, Any] = {
        "maxOutputTokens": cap,
        "stopSequences": request.stops or None,
        "candidateCount": request.n if request.n != 1 else None,
        "seed": request.seed,
    }
    sampling = {"temperature": request.temperature, "top_p": request.top_p, "top_k": request.top_k}
    penalties = {"presence_penalty": request.presence_penalty, "frequency_penalty": request.frequency_penalty}
    out |= _named(sampling, dropped, taken=row.sampling)
    out |= _named(penalties, dropped, taken=row.penalties)
    out |= _probabilities(request, row, dropped)
    out |= _form(request)
    thinking = _thinking(request.reasoning_effort, row)
    if thinking is None and request.reasoning_effort not in {None, "none"}:
        dropped.append("reasoning_effort")
    out["thinkingConfig"] = thinking
    return {name: value for name, value in out.items() if value is not None}


def _named(values: dict[str, Any], dropped: list[str], *, taken: bool) -> dict[str, Any]:
    """The values under Google's names; if they are not taken, the client's names are added to ``dropped``."""
    given = {name: value for name, value in values.items() if value is not None}
    if taken:
        return {_camel(name): value for name, value in given.items()}
    dropped += given
    return {}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _probabilities(request: Request, row: Row, dropped: list[str]) -> dict[str, Any]:
    if not request.logprobs:
        return {}
    if not row.logprobs:
        dropped.append("logprobs")
        return {}
    return {"responseLogprobs": True, "logprobs": request.top_logprobs}


def _form(request: Request) -> dict[str, Any]:
    """The form of the answer. A JSON schema goes as it is: ``responseSchema`` would take a subset only."""
    form = request.response_format
    if form is None or form.type not in {"json_object", "json_schema"}:
        return {}
    out: dict[str, Any] = {"responseMimeType": "application/json"}
    if form.json_schema is not None and not rawjson.is_null(form.json_schema.schema):
        out["responseJsonSchema"] = form.json_schema.schema
    return out


def _thinking(effort: str | None, row: Row) -> dict[str, Any] | None:
    """The thinking config; None if there is nothing to say, or no way to say it."""
    if effort is None or row.thinking is Thinking.NONE or effort not in {"none", *_EFFORTS}:
        return None
    if effort == "none":
        level, budget = row.levels[0], row.budget_off
    else:
        rank = _EFFORTS[effort]
        level = next((word for word in reversed(LEVELS[: rank + 1]) if word in row.levels), row.levels[0])
        budget = _BUDGETS.get(rank, row.budget_minimal)
    amount = {"thinkingLevel": level} if row.thinking is Thinking.LEVEL else {"thinkingBudget": budget}
    return amount if effort == "none" else {**amount, "includeThoughts": True}
