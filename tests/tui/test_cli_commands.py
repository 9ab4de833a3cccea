from tui import cli_commands


def test_words_are_quoted_for_a_shell() -> None:
    assert (
        cli_commands.cli_command("token", "add", "my box", models="gpt-*", note=None)
        == "token add 'my box' --models 'gpt-*'"
    )
