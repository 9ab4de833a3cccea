from rich.cells import cell_len

from gateway.client.cells import cell, cut, cut_middle, cut_pair


def test_cells_have_their_width_exactly() -> None:
    for text in ("", "abc", "abcdefgh", "日本語日本語", "e\u0301" * 9, "👩🏽 x"):
        for width in range(1, 8):
            assert cell_len(cell(text, width)) == width, (text, width)
            assert cell_len(cell(text, width, right=True)) == width


def test_cut_texts_end_in_an_ellipsis() -> None:
    assert cut("abcdef", 4) == "abc…"
    assert cut("日本語", 4) == "日 …"
    assert cut("abcdef", 4, "~") == "abc~"
    assert cut("abcd", 4) == "abcd"


def test_a_name_that_is_cut_keeps_its_end() -> None:
    assert [cut_middle("claude-proj-a12b97", width) for width in (18, 10, 4, 2)] == [
        "claude-proj-a12b97",
        "claud…2b97",
        "cl…7",
        "c…",
    ]
    assert cut_middle("名前名前名前", 7) == "名 …前"


def test_two_names_share_the_room() -> None:
    pair = "claude-haiku-4-5", "gpt-4o"
    assert [cut_pair(*pair, width) for width in (26, 25, 18, 12)] == [
        "claude-haiku-4-5 as gpt-4o",
        "claude-…iku-4-5 as gpt-4o",
        "clau…4-5 as gpt-4o",
        "cl…5 as gp…o",
    ]
    assert cut_pair("gpt-4o", "claude-sonnet-4-5", 18) == "gpt-4o as clau…4-5"
    assert cut_pair("claude-haiku-4-5", "claude-sonnet-4-5", 24) == "claud…-4-5 as claud…-4-5"
    assert all(cell_len(cut_pair("名前名前", "名前名前", width)) <= width for width in range(6, 21))
    assert cell_len(cut_middle("名前名前名前", 7)) == 6


def test_numbers_stand_at_the_right() -> None:
    assert cell("12", 4, right=True) == "  12"
