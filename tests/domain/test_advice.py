from gateway.domain.advice import advice


def test_the_names_are_put_in() -> None:
    assert advice("token_disabled", token="laptop") == "'tollkeeper token enable laptop'"


def test_a_name_that_looks_like_a_place_is_left_alone() -> None:
    assert advice("token_expired", token="{model}{0}", model="m").startswith("'tollkeeper token edit {model}{0} ")


def test_an_unknown_code_has_none() -> None:
    assert advice("brew") == ""
