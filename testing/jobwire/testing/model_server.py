"""The scripted model that real agents ask in tests: it is the one of `jobwire doctor --agents`."""

from jobwire.hooks.scripted_model import Calls, Fails, Says, ScriptedModel, Turn, calls

__all__ = ["Calls", "Fails", "Says", "ScriptedModel", "Turn", "calls"]
