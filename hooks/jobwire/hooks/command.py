"""What `jobwire hook` does."""

import argparse
import os

from jobwire.hooks.main import WAKE
from jobwire.hooks.main import hook as run_hook


def hook(args: argparse.Namespace) -> int:
    """Take one hook's input."""
    rest = [WAKE] if args.wake else []
    rest += [args.input] if args.input is not None else []
    return run_hook(args.agent, rest, environ=os.environ, home=args.home)
