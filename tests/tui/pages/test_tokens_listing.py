from gateway.domain.units import Millis
from tests.tui.stage import NOW, FakeClient, console, token
from tui.pages.tokens import TokenListing, TokenRow


def listing(*tokens: object) -> TokenListing:
    session = console().session
    client = FakeClient()
    client.tokens_now = list(tokens) or client.tokens_now  # type: ignore[arg-type]
    session.board.apply(client.snapshot())
    return TokenListing(session)


def cells(made: TokenListing, row: TokenRow) -> dict[str, str]:
    return {column.id: column.text(row) for column in made.columns()}


def test_a_row_tells_state_budget_and_age() -> None:
    made = listing(token("ci", expires_ms=Millis(NOW + 3_600_000)))
    found = cells(made, made.rows()[0])
    assert (found["state"], found["expires"], found["seen"], found["window"]) == ("●", "in 1h", "14s", "month")


def test_rows_stay_the_same_objects_while_nothing_changes() -> None:
    made = listing()
    assert [a is b for a, b in zip(made.rows(), made.rows(), strict=True)] == [True] * 5


def test_the_command_shows_the_token() -> None:
    made = listing(token("my box"))
    assert made.twin(made.rows()[0]) == "tollkeeper token show 'my box'"


def test_a_token_that_sees_nothing_says_why() -> None:
    made = listing(token("ci", sees=[], budgets=[], note="for builds"))
    text = made.detail(made.rows()[0], 80).plain
    assert "sees none: no enabled channel of its group" in text
    assert "none of its own" in text
    assert "for builds" in text


def test_the_filter_looks_at_names_groups_and_states() -> None:
    made = listing(token("ci", state="expired", group="batch"))
    assert made.words(made.rows()[0]).startswith("ci batch expired")


def test_no_tokens_say_what_to_do() -> None:
    assert "n makes one" in listing().empty().plain
