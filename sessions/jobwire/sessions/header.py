"""What an agent reads before its instructions: who it is, which job it has, how it reports. Pure."""

_HEADER = """\
You work on job {job_id}{title} for {delegator}, through jobwire. You are {agent}. Report in your shell:
  publish_event --job {job_id} --event progress --detail "what you do"
  jobwire ask --job {job_id} "your question"      waits for a person, prints the answer
  jobwire inbox fetch --agent {agent}      what others wrote to you
  publish_event --job {job_id} --event completed --detail "what came of it"
  publish_event --job {job_id} --event error --detail "why it cannot be done"
End with exactly one of the last two. If one of them exits with 3, stop working on this job.

"""
# A longer text is not pasted: the line names the file that holds it.
MOST_PASTED = 4000


def compose(instructions: str, *, job_id: str, title: str, agent: str, delegator: str) -> str:
    """Return header and instructions."""
    shown = f" ({title})" if title else ""
    return _HEADER.format(job_id=job_id, title=shown, agent=agent, delegator=delegator) + instructions


def pointer(path: str, job_id: str) -> str:
    """Return the one line that names the file with the instructions."""
    return f"Read the file {path} and do what it says: your instructions for job {job_id}"
