"""Answer: a whole answer of Gemini's as a chat completion."""

from gateway.domain.channel import Channel
from gateway.upstream import rawjson
from gateway.upstream.adapter import Order
from gateway.upstream.chat.forms import Completion, Json, completion, message
from gateway.upstream.chat.signatures import Signatures
from gateway.upstream.chat.whole import no_answer
from gateway.upstream.gemini.candidate import News
from gateway.upstream.gemini.responses import Responses, split


def read_answer(body: bytes, order: Order, channel: Channel, signatures: Signatures) -> Completion:
    """The chat completion. Raises AttemptFailed when the body is an error, or no answer."""
    responses = Responses(order, channel, signatures)
    news: dict[int, list[News]] = {}
    try:
        for response in split(body):
            for index, more in responses.add(response):
                news.setdefault(index, []).append(more)
    except ValueError as error:
        raise no_answer(body, channel) from error
    endings = responses.endings()
    if not endings:
        raise no_answer(body, channel)
    choices = [(_message(news.get(index, [])), finish) for index, finish in endings]
    answer = completion(responses.id, choices, responses.usage)
    for choice, (index, _) in zip(answer["choices"], endings, strict=True):
        probable = [more.logprobs for more in news.get(index, []) if more.logprobs is not None]
        choice["logprobs"] = probable[-1] if probable else None
    return Completion(rawjson.encode(answer), responses.suspect)


def _message(news: list[News]) -> Json:
    texts = "".join(text for more in news for text in more.texts)
    thoughts = "".join(thought for more in news for thought in more.thoughts)
    calls = [{name: value for name, value in call.items() if name != "index"} for more in news for call in more.calls]
    return message(texts, reasoning=thoughts, calls=calls)
