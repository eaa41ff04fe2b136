"""`jobwire logs`: the output of a job's command."""

import argparse
from pathlib import Path

from jobwire.core.clock import SystemClock
from jobwire.core.errors import NotFoundError
from jobwire.core.exit_codes import ExitCode
from jobwire.registry.store import RecordStore
from jobwire.runner.output_log import OutputReader, OutputSink, output_path


def run(args: argparse.Namespace) -> int:
    """Print the output; raises NotFoundError for an unknown job, and where no output is kept."""
    store = RecordStore(Path(args.home))
    record = store.get(args.job)
    sink = OutputSink()
    with OutputReader(output_path(store, args.job), sink, lines=args.lines) as reader:
        if args.follow:
            reader.follow(lambda: store.get(args.job).terminal, SystemClock().sleep)
        else:
            reader.rest()
        sink.finish()
        if not reader.found:
            raise NotFoundError(
                f"no output of job {args.job} is kept",
                hint="`jobwire run` keeps the output of what it runs; other workers keep their own"
                if record.terminal or args.follow
                else "where it has not begun yet, `jobwire logs -f` waits for it",
            )
    return ExitCode.OK
