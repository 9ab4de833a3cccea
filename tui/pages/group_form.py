"""Group form: its inputs, and the preview of the models that its tokens will see."""

from gateway.domain.fields import GROUP
from gateway.domain.group import GroupFields, hidden_aliases
from gateway.domain.patterns import matches
from gateway.domain.views import GroupView
from tui import format as fmt
from tui.entity_form import EntityForm
from tui.session import ConsoleSession
from tui.text import safe
from tui.widgets.form import Values


def group_form(session: ConsoleSession, group: GroupView | None, *, copy: bool = False) -> EntityForm:
    """A form that edits a group, or creates one like it (``copy``) or an empty one."""
    return EntityForm("group", GROUP, GroupFields(name=""), session, group, copy=copy)


def no_channel(session: ConsoleSession) -> str:
    """What to do about a group without a channel."""
    return f"no channel lists this group; add it on page 4 ({session.key('entity.edit')})"


def visible_models(session: ConsoleSession, group: GroupView | None, values: Values) -> str:
    """Which models its tokens will see."""
    channels = [one for one in session.board.channels if group is not None and one.name in group.channels]
    offered = sorted({model.name for one in channels if one.enabled for model in one.models})
    found = [name for name in offered if matches(name, tuple(values["models"]))]
    if group is None:
        return no_channel(session)
    seen = f"its tokens see {len(found)} of the {fmt.count_text(len(offered), 'model')} that its channels offer"
    aliases = hidden_aliases(GroupFields(name="", models=tuple(values["models"]), fallbacks=tuple(values["fallbacks"])))
    return f"{seen}; Models hides {', '.join(map(safe, aliases))}" if aliases else seen
