"""Signatures are kept by call, within bounds, the oldest leaving first."""

import msgspec

from gateway.upstream.translate.tool_names import Signatures


def test_what_is_kept_is_found() -> None:
    signatures = Signatures()
    signatures.remember("a", b"1")
    signatures.remember("a", b"2")
    assert (signatures.recall("a"), signatures.recall("b")) == (b"2", b"")


def test_nothing_is_not_kept() -> None:
    signatures = Signatures(entries=1)
    signatures.remember("a", b"1")
    signatures.remember("", b"1")
    signatures.remember("b", b"")
    assert signatures.recall("a") == b"1"


def test_the_one_not_used_for_longest_leaves_first() -> None:
    signatures = Signatures(entries=2)
    for id in ("a", "b"):
        signatures.remember(id, b"1")
    signatures.recall("a")
    signatures.remember("c", b"1")
    assert [signatures.recall(id) for id in ("a", "b", "c")] == [b"1", b"", b"1"]


def test_the_bytes_are_bounded() -> None:
    signatures = Signatures(size=10)
    signatures.remember("a", b"x" * 6)
    signatures.remember("b", b"x" * 6)
    signatures.remember("c", b"x" * 11)
    assert [len(signatures.recall(id)) for id in ("a", "b", "c")] == [0, 6, 0]


def test_replacing_frees_the_room() -> None:
    signatures = Signatures(size=10)
    for _ in range(5):
        signatures.remember("a", b"x" * 6)
    signatures.remember("b", b"x" * 4)
    assert (len(signatures.recall("a")), len(signatures.recall("b"))) == (6, 4)


def test_what_belongs_to_the_calls_of_a_request_is_counted() -> None:
    signatures = Signatures()
    calls = [{"id": id, "type": "function"} for id in ("a", 'b"', "c")]
    fields = {"messages": msgspec.Raw(msgspec.json.encode([{"role": "assistant", "tool_calls": calls}]))}
    assert signatures.tokens_for(fields) == 0
    for id in ("a", 'b"', "x"):
        signatures.remember(id, b"123456")
    assert signatures.tokens_for(fields) == 4
    assert signatures.tokens_for({"messages": msgspec.Raw(b'[{"role":"user","id":"a"}]')}) == 0
    assert signatures.tokens_for({}) == 0
