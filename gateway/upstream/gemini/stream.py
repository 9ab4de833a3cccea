"""Stream: the events of a streamed answer of Gemini's as chunks of chat completions."""

from gateway.domain.channel import Channel
from gateway.upstream.adapter import AttemptFailed, Failure, Order
from gateway.upstream.framing import SSEEvent
from gateway.upstream.gemini.response import CandidateNews, GeminiResponses, split
from gateway.upstream.translate.response import Json, chunk, delta
from gateway.upstream.translate.tool_names import Signatures
from gateway.upstream.usage_marks import marks_of


class ResponseDecoder:
    """Implements ``chat.decoder.Decoder``."""

    def __init__(self, order: Order, channel: Channel, signatures: Signatures) -> None:
        self._responses = GeminiResponses(order, channel, signatures)
        self.failure: Failure | None = None
        self.complete = False

    @property
    def marks(self) -> tuple[str, ...]:
        """See ``chat.decoder.Decoder``."""
        return marks_of({}, suspect=self._responses.suspect)

    def take(self, event: SSEEvent) -> list[Json]:
        """See ``chat.decoder.Decoder``."""
        if event.data.strip() == b"[DONE]":  # some relays send it; the bytes end all the same
            return []
        try:
            return [chunk for response in split(event.data) for chunk in self._chunks(self._responses.add(response))]
        except AttemptFailed as exc:
            self.failure = exc.failure
            return []

    def end(self) -> list[Json]:
        """See ``chat.decoder.Decoder``: now it is certain that the finish reasons are the last ones."""
        if not self._responses.ended:
            return []
        try:
            endings = self._responses.endings()
        except AttemptFailed as exc:
            self.failure = exc.failure
            return []
        self.complete = True
        return [chunk(self._responses.id, delta(index, finish=finish)) for index, finish in endings]

    def _chunks(self, news: list[tuple[int, CandidateNews]]) -> list[Json]:
        choices = [_choice(index, more) for index, more in news if not more.empty]
        return [chunk(self._responses.id, *choices, usage=self._responses.usage)]


def _choice(index: int, news: CandidateNews) -> Json:
    fields: Json = {}
    if news.thoughts:
        fields["reasoning_content"] = "".join(news.thoughts)
    if news.texts:
        fields["content"] = "".join(news.texts)
    if news.calls:
        fields["tool_calls"] = news.calls
    return {**delta(index, **fields), "logprobs": news.logprobs}
