"""Tools: which functions the model may call, and whether it must, however the client put it."""

import msgspec

from gateway.domain.errors import BadRequest
from gateway.upstream.chat.refused import unsupported
from gateway.upstream.chat.request import Function, Named, Request, ToolChoice
from gateway.upstream.rawjson import NULL

_WORDS = ("auto", "none", "required")


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """One function on offer."""

    function: Function
    cache: msgspec.Raw = NULL
    """Anthropic's cache breakpoint."""


class Toolbox(msgspec.Struct, frozen=True, kw_only=True):
    """The functions on offer and the choice among them."""

    offers: tuple[Offer, ...] = ()
    mode: str = ""
    """``auto``, ``none``, ``required`` or ``named``; empty: the client said nothing."""
    name: str = ""
    """The function that must be called, if ``named``."""
    param: str = "tool_choice"
    """Where the client said so."""

    @property
    def forced(self) -> bool:
        """Whether the model must call something."""
        return self.mode in {"required", "named"}


def read_tools(request: Request) -> Toolbox:
    """The toolbox; the legacy spelling counts where the new one is not used. Raises BadRequest."""
    offers = [_offer(request, i) for i in range(len(request.tools or ()))]
    offers += [Offer(function=function) for function in request.functions or ()]
    if request.tool_choice is None and request.function_call is not None:
        return _legacy(tuple(offers), request.function_call)
    return _chosen(tuple(offers), request.tool_choice)


def _offer(request: Request, i: int) -> Offer:
    tool = (request.tools or [])[i]
    if tool.type != "function" or tool.function is None:
        raise unsupported(f"tools[{i}]", f"a tool of type '{tool.type}' has no counterpart there; only functions have")
    return Offer(function=tool.function, cache=tool.cache_control)


def _legacy(offers: tuple[Offer, ...], choice: Named | str) -> Toolbox:
    if isinstance(choice, Named):
        return Toolbox(offers=offers, mode="named", name=choice.name, param="function_call")
    return Toolbox(offers=offers, mode=_word(choice, "function_call"), param="function_call")


def _chosen(offers: tuple[Offer, ...], choice: ToolChoice | str | None) -> Toolbox:
    if choice is None or isinstance(choice, str):
        return Toolbox(offers=offers, mode="" if choice is None else _word(choice, "tool_choice"))
    if choice.type == "function" and choice.function is not None:
        return Toolbox(offers=offers, mode="named", name=choice.function.name)
    if choice.type == "allowed_tools" and (allowed := choice.allowed_tools) is not None:
        names = {call.function.name for call in allowed.tools if call.function is not None}
        kept = tuple(offer for offer in offers if offer.function.name in names)
        return Toolbox(offers=kept, mode=_word(allowed.mode, "tool_choice.allowed_tools.mode"))
    raise unsupported("tool_choice", f"a choice of type '{choice.type}' has no counterpart there")


def _word(word: str, param: str) -> str:
    if word not in _WORDS:
        raise BadRequest(f"{param}: must be one of {', '.join(_WORDS)}", param=param)
    return word
