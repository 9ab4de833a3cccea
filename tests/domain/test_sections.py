from gateway.domain.config_codec import INNER, SECTIONS
from gateway.domain.registry import Registry

NO_CONFIGURATION = {"grants", "lists"}
"""Money, and what was learned."""


def test_every_table_of_the_registry_is_a_section_or_no_configuration() -> None:
    """A new table must be one or the other."""
    assert {section.name for section in SECTIONS} | NO_CONFIGURATION == set(Registry.__struct_fields__)


def test_what_is_left_out_are_fields() -> None:
    for section in SECTIONS:
        assert {*section.omit, section.title} - {""} <= set(section.kind.__struct_fields__)
    for kind, names in INNER.items():
        assert set(names) <= set(getattr(kind, "__struct_fields__", ()))
