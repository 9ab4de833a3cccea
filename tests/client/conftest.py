"""The control surface that the client is tested against is the real one."""

from tests.control.conftest import owner, surface

__all__ = ["owner", "surface"]
