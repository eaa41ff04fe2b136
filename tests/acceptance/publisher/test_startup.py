"""What a short command loads: the path of publish_event stays light."""

import subprocess
import sys

HEAVY = {"pydantic", "dataclasses", "asyncio", "rich", "amqtt", "cryptography", "pyspark", "rfc8785"}


def test_publish_event_does_not_load_heavy_libraries() -> None:
    """Importing the command of a worker loads none of the libraries that cost start-up time."""
    program = "import sys, jobwire.publisher.cli; print(' '.join(sorted(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert HEAVY & set(answer.stdout.split()) == set()
