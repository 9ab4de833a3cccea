import pytest

from gateway import __version__
from gateway.client.control import ControlClient
from gateway.domain.errors import Conflict
from gateway.domain.settings import Durability, ExpiringRecords, Settings
from gateway.domain.units import DAY_MS
from tests.control.confirming import confirming
from tests.control.test_history import refused
from tests.fakes.gateway import GRANTED, Gateway
from tests.store.samples import record


async def test_the_status_echoes_the_instance(owner: ControlClient, gateway: Gateway) -> None:
    status = await owner.status()
    assert (status.instance, status.version, status.state) == (gateway.engine.instance, __version__, "serving")
    assert (status.address, status.channels, status.watchers) == (gateway.base_url, {"ok": 1}, 0)


@pytest.mark.parametrize("now", [False, True])
async def test_stopping_is_passed_on(owner: ControlClient, gateway: Gateway, now: bool) -> None:
    asked: list[bool] = []
    gateway.engine.on_stop = asked.append
    await owner.stop(now=now)
    assert asked == [now]


async def test_the_books_are_proven(owner: ControlClient, gateway: Gateway) -> None:
    record = await gateway.call()
    verdict = await owner.verify()
    assert (verdict.equal, verdict.difference, verdict.calls) == (True, "", 1)
    assert (verdict.cost_nanos, verdict.granted_nanos, verdict.balance_nanos) == (
        record.cost,
        GRANTED,
        GRANTED - record.cost,
    )


async def test_settings_are_shown_and_changed(owner: ControlClient) -> None:
    assert await owner.settings() == Settings()
    changed = await owner.set_settings({"refuse_unpriced": True, "durability": "call"})
    assert changed == await owner.settings() == Settings(refuse_unpriced=True, durability=Durability.CALL)


async def test_an_undo_says_which_settings_are_as_before(owner: ControlClient) -> None:
    await owner.set_settings({"keep_days": 3650})
    assert (await owner.undo()).text == "setting keep_days is 400 days again"
    await owner.set_settings({"keep_days": 3650, "refuse_unpriced": True})
    undone = await owner.undo()
    assert undone.target.text == "changed settings refuse_unpriced, keep_days"
    assert undone.text == "settings refuse_unpriced, keep_days are as before"


async def test_a_change_at_the_end_of_a_long_setting_is_named(owner: ControlClient) -> None:
    pages = [f"https://page{number}.example.com" for number in range(20)]
    await owner.set_settings({"origins": pages})
    await owner.set_settings({"origins": [*pages, "https://last.example.com"]})
    (newest, *_) = await owner.history()
    assert newest.text.startswith("changed setting origins from …")
    (named,) = newest.differences[0].fields
    found = ["last.example.com" in text for text in (newest.text, named.after, named.before)]
    assert (named.field, found) == ("origins", [True, True, False])


async def test_records_that_are_deleted_are_announced(owner: ControlClient, gateway: Gateway) -> None:
    """Undo asks before it deletes records, and does not claim that deleted ones are back."""
    now = gateway.engine.now()
    for number, age in enumerate((20, 20, 15, 0)):
        gateway.engine.store.calls.log.append([row := record(number, ts=now - age * DAY_MS, cost=0)], in_new_file=True)
        gateway.engine.store.books.counters.add(row)
    old = ExpiringRecords(records=3, days=2)
    for days in (30, 400):
        assert (await owner.set_settings({"keep_days": days})).keep_days == days
    assert (await owner.import_config("format = 1\n[settings]\nkeep_days = 10")).expiring == old
    error = await refused(owner.set_settings({"keep_days": 10}))
    assert (error.code, error.details["text"]) == ("needs_confirmation", "Keep records for 10 days?")
    assert error.details["reasons"] == ["3 records of 2 days are deleted for good. Undo does not bring them back."]
    assert (await owner.settings()).keep_days == 400
    assert (await confirming(owner).set_settings({"keep_days": 10})).keep_days == 10
    undone = await owner.undo()
    assert undone.notes == []  # nothing was deleted yet
    await confirming(owner).redo()
    (oldest, *_) = gateway.engine.store.calls.log.segments
    oldest.deleted = True  # as it is a little later
    undone = await owner.undo()
    assert undone.notes == ["call records that were deleted in the meantime do not come back"]
    oldest.deleted = False
    with pytest.raises(Conflict, match="then kept for 10 days only, and 3 records of 2 days are deleted for good"):
        await owner.redo()
    assert (await owner.settings()).keep_days == 400
