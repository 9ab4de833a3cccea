"""The models of a channel, as they are typed and as they are sent."""

import pytest

from gateway.domain.channel import ChannelFields, ServedModel
from gateway.domain.errors import BadRequest
from gateway.domain.quoting import Offering, offering_of, offering_words, read_offering
from tests.domain.field_samples import ODD


def test_names_mappings_and_patterns_are_read_and_written_the_same() -> None:
    found = read_offering("a, fast=b, gpt-*, !*-preview")
    assert found.models == [ServedModel(name="a"), ServedModel(name="fast", upstream="b")]
    assert found.patterns == ["gpt-*", "!*-preview"]
    assert offering_words(found) == ["a", "fast=b", "gpt-*", "!*-preview"]


def test_what_is_known_of_a_model_that_stays_is_kept() -> None:
    known = [ServedModel(name="a", context=8_000), ServedModel(name="b", upstream="bb")]
    assert read_offering("a, b=bb, c", known).models == [*known, ServedModel(name="c")]


URLS = ("https://host/v1", "a=https://host/v1", "a, http://host:8000/v1/", "!https://h*")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        *((half, "is not a model name") for half in ("=x", "a=")),
        *((url, "is a URL, not the name of a model") for url in URLS),
    ],
)
def test_texts_without_a_model_fail(text: str, told: str) -> None:
    with pytest.raises(BadRequest, match=told):
        read_offering(text)


def test_models_of_a_pattern_are_not_named() -> None:
    models = (ServedModel(name="a"), ServedModel(name="gpt-5", live=True))
    found = offering_of(ChannelFields(name="x", models=models, patterns=("gpt-*",)))
    assert (found.models, found.patterns) == ([ServedModel(name="a")], ["gpt-*"])
    assert offering_words(found) == ["a", "gpt-*"]


def test_which_models_a_pattern_selects_is_left_to_the_server() -> None:
    known = [ServedModel(name="a"), ServedModel(name="gpt-5", live=True)]
    assert read_offering("a, gpt-*", known).patch() == {"models": [{"name": "a"}], "patterns": ["gpt-*"]}
    assert read_offering("a", known).patch()["models"] == [{"name": "a"}]
    assert read_offering("a, gpt-5, gpt-*", known).patch()["models"] == [{"name": "a"}, {"name": "gpt-5"}]


def test_names_with_blanks_and_marks_stay_what_they_are() -> None:
    models = [ServedModel(name=one) for one in ODD] + [ServedModel(name=f"p{one}", upstream=f"u{one}") for one in ODD]
    there = Offering([*models, ServedModel(name="odd *")], ["m *", "!n,*"])
    for separator in (", ", ","):
        assert read_offering(separator.join(offering_words(there)), there.models) == there
