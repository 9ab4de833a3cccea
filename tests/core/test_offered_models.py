"""What a channel offers of what its upstream lists."""

from msgspec.structs import replace

from gateway.core.offered_models import fit_to_patterns, newly_listed, offered_models
from gateway.domain.channel import Channel, ServedModel, UpstreamModels
from gateway.domain.price import UpstreamPrices
from gateway.domain.units import Millis, Nanos
from tests.core import kit

NOW = Millis(9_000)
LIST = tuple(ServedModel(name=name) for name in ("gpt-5", "gpt-5-preview", "o3"))


def up(*patterns: str, models: tuple[ServedModel, ...] = ()) -> Channel:
    return replace(kit.channel("up"), patterns=patterns, models=models)


def names(channel: Channel) -> list[str]:
    return [model.name for model in channel.models]


def test_patterns_let_in_only_what_is_listed() -> None:
    found = offered_models(up("gpt-*", "!*-preview", "claude-*"), LIST, NOW)
    assert found.models == (ServedModel(name="gpt-5", live=True, created=NOW),)


def test_without_patterns_nothing_is_let_in() -> None:
    assert names(offered_models(up(models=(ServedModel(name="mine"),)), LIST, NOW)) == ["mine"]


def test_what_is_no_longer_listed_goes_except_for_what_was_named() -> None:
    before = up(
        "*", models=(ServedModel(name="mine"), ServedModel(name="old", live=True), ServedModel(name="o3", live=True))
    )
    assert names(offered_models(before, LIST, NOW)) == ["mine", "gpt-5", "gpt-5-preview", "o3"]


def test_a_name_of_the_owner_s_wins() -> None:
    mine = ServedModel(name="o3", upstream="gpt-5")
    assert offered_models(up("o*", models=(mine,)), LIST, NOW).models == (mine,)


def test_a_model_keeps_the_time_it_was_first_served() -> None:
    before = up("*", models=(ServedModel(name="o3", live=True, created=Millis(5)),))
    made = ServedModel(name="gpt-5", created=Millis(7))
    assert [m.created for m in offered_models(before, (LIST[2], made, LIST[1]), NOW).models] == [5, 7, 9_000]


def test_what_the_upstream_reports_is_shown_beside_a_mapped_name() -> None:
    published = UpstreamPrices(input=Nanos(1), output=Nanos(2))
    before = up(models=(ServedModel(name="fast", upstream="o3", context=1),))
    (found,) = offered_models(before, (ServedModel(name="o3", context=200, published=published),), NOW).models
    assert (found.name, found.context, found.published, found.live) == ("fast", 200, published, False)


def test_what_the_owner_takes_away_stays_out() -> None:
    before = offered_models(up("*"), LIST, NOW)
    after = fit_to_patterns(before, replace(before, models=before.models[:1]), sends_patterns=False)
    assert after.patterns == ("*", "!gpt-5-preview", "!o3")
    assert names(offered_models(after, LIST, NOW)) == ["gpt-5"]


def test_patterns_that_are_sent_decide_on_the_models_that_patterns_had_selected() -> None:
    named = ServedModel(name="o3", upstream="gpt-5")
    before = offered_models(up("*"), LIST, NOW)
    after = fit_to_patterns(before, replace(before, models=(named,)), sends_patterns=True)
    assert (after.patterns, after.models) == (("*",), (named, *before.models[:2]))
    fewer = fit_to_patterns(before, replace(before, models=(), patterns=("*", "!o3")), sends_patterns=True)
    assert fewer.models == before.models[:2]


def test_without_patterns_the_models_are_fixed() -> None:
    before = offered_models(up("*"), LIST, NOW)
    after = fit_to_patterns(before, replace(before, patterns=()), sends_patterns=True)
    assert [(model.name, model.live) for model in after.models] == [(model.name, False) for model in LIST]
    chosen = fit_to_patterns(
        before, replace(before, models=(ServedModel(name="o3"),), patterns=()), sends_patterns=True
    )
    assert names(chosen) == ["o3"]


def test_a_model_that_was_mapped_by_hand_is_the_owner_s() -> None:
    before = up("*", models=(ServedModel(name="o3", upstream="gpt-5", live=True), ServedModel(name="gpt-5", live=True)))
    assert [model.live for model in fit_to_patterns(before, before, sends_patterns=False).models] == [False, True]


def test_a_list_tells_what_is_new_and_gone_until_it_changes_again() -> None:
    first = newly_listed(None, up(), LIST, NOW)
    assert first == UpstreamModels(channel=up().id, time=NOW, models=LIST)
    second = newly_listed(
        replace(first, error="down", tried=NOW), up(), (LIST[0], ServedModel(name="x")), Millis(10_000)
    )
    assert (second.new, second.gone, second.error) == (("x",), ("gpt-5-preview", "o3"), "")
    third = newly_listed(second, up(), second.models, Millis(11_000))
    assert (third.new, third.gone, third.time) == (second.new, second.gone, 11_000)
