"""Keeps a module out of the process until somebody uses it."""

import importlib
import sys
from types import ModuleType

from jobwire.core.override import override


class DeferredModule(ModuleType):
    """Stands in for module `parent.child` and loads it on the first attribute anybody reads.

    paho imports urllib.request for HTTP proxies only, and with it http.client, email and tempfile:
    18 ms of the 62 ms of a cold `import paho.mqtt.client`. Nothing here uses a proxy.
    """

    @override
    def __getattr__(self, attribute: str) -> object:
        """Load the real module and answer from it; called only for what a bare module lacks."""
        self.withdraw()
        return getattr(importlib.import_module(self.__name__), attribute)

    def install(self) -> None:
        """Take the place of the module, unless it is loaded already."""
        if self.__name__ in sys.modules:
            return
        parent, _, child = self.__name__.rpartition(".")
        setattr(importlib.import_module(parent), child, self)
        sys.modules[self.__name__] = self

    def withdraw(self) -> None:
        """Let the next `import` statement find the real module; who holds this object keeps it."""
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
