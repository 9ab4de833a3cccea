"""What vendors want back with tool calls is kept within bounds, and never given to another token."""

import sys
import threading

import msgspec

from gateway.upstream.call_memory import CallMemory


def test_the_newest_value_is_found() -> None:
    memory = CallMemory()
    memory.remember("t", "a", b"1")
    memory.remember("t", "a", b"2")
    assert (memory.recall("t", "a"), memory.recall("t", "b")) == (b"2", b"")


def test_nothing_is_not_kept() -> None:
    memory = CallMemory(entries=1)
    memory.remember("t", "a", b"1")
    memory.remember("t", "", b"1")
    memory.remember("t", "b", b"")
    memory.remember("t", "c" * 1001, b"1")
    assert memory.recall("t", "a") == b"1"


def test_the_one_not_used_for_longest_leaves_first() -> None:
    memory = CallMemory(entries=2)
    for id in ("a", "b"):
        memory.remember("t", id, b"1")
    memory.recall("t", "a")
    memory.remember("t", "c", b"1")
    assert [memory.recall("t", id) for id in ("a", "b", "c")] == [b"1", b"", b"1"]


def test_the_bytes_are_counted_when_two_threads_add() -> None:
    """The event loop, and the thread for large answers."""
    memory, before = CallMemory(entries=1000, size=5000), sys.getswitchinterval()

    def add(name: str) -> None:
        for i in range(20_000):
            memory.remember("t", f"{name}{i % 40}", b"x" * (i % 100 + 1))

    threads = [threading.Thread(target=add, args=(name,)) for name in "ab"]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    for i in range(60):
        memory.remember("t", f"c{i}", b"x" * 100)
    assert [bool(memory.recall("t", f"c{i}")) for i in range(60)] == [False] * 10 + [True] * 50


def test_the_bytes_are_bounded() -> None:
    memory = CallMemory(size=10)
    memory.remember("t", "a", b"x" * 6)
    memory.remember("t", "b", b"x" * 6)
    memory.remember("t", "c", b"x" * 11)
    assert [len(memory.recall("t", id)) for id in ("a", "b", "c")] == [0, 6, 0]


def test_replacing_frees_the_room() -> None:
    memory = CallMemory(size=10)
    for _ in range(5):
        memory.remember("t", "a", b"x" * 6)
    memory.remember("t", "b", b"x" * 4)
    assert (len(memory.recall("t", "a")), len(memory.recall("t", "b"))) == (6, 4)


def test_what_belongs_to_the_calls_of_a_request_is_counted() -> None:
    memory = CallMemory()
    calls = [{"id": id, "type": "function"} for id in ("a", 'b"', "c")]
    fields = {"messages": msgspec.Raw(msgspec.json.encode([{"role": "assistant", "tool_calls": calls}]))}
    assert memory.tokens_for(fields) == 0
    for id in ("a", 'b"', "x"):
        memory.remember("t", id, b"123456")
    assert memory.tokens_for(fields) == 4
    assert memory.tokens_for({"messages": msgspec.Raw(b'[{"role":"user","id":"a"}]')}) == 0
    assert memory.tokens_for({}) == 0


def test_a_token_gets_only_what_its_own_calls_have_brought() -> None:
    memory = CallMemory()
    memory.remember("a", "c1", b"A")
    memory.remember("b", "c1", b"BB")
    assert [memory.recall(owner, "c1") for owner in ("a", "b", "c", "")] == [b"A", b"BB", b"", b""]


def test_what_is_forgotten_of_one_token_is_not_held_for_and_not_put_back() -> None:
    memory = CallMemory(entries=2)
    for owner in ("a", "b", "c"):
        memory.remember(owner, "c1", b"X" * 300)
    fields = {"messages": msgspec.Raw(b'[{"tool_calls":[{"id":"c1"}]}]')}
    held = memory.tokens_for(fields)
    assert [len(memory.recall(owner, "c1")) // 3 <= held for owner in ("a", "b", "c")] == [True] * 3


def test_the_values_of_some_calls_of_one_token_are_forgotten() -> None:
    memory = CallMemory()
    kept = [("t", "c", ""), ("other", "a", "")]
    for owner, call_id, key in (*kept, ("t", "a", ""), ("t", "a", "account"), ("t", "b", "account")):
        memory.remember(owner, call_id, b"1", key)
    assert memory.forget("t", {"a", "b", "d"})
    assert not memory.forget("t", {"a", "b", "d"})
    places = [(owner, id, key) for owner in ("t", "other") for id in "abc" for key in ("", "account")]
    assert [place for place in places if memory.recall(*place)] == kept


def test_calls_of_one_id_are_kept_apart_by_their_key() -> None:
    memory = CallMemory()
    memory.remember("t", "f:0", b"A", "first")
    memory.remember("t", "f:0", b"BB", "second")
    assert [memory.recall("t", "f:0", key) for key in ("first", "second", "")] == [b"A", b"BB", b""]
