"""The variables of a worker's environment that say which job it speaks for, and how."""

ENV_JOB = "JOBWIRE_JOB"
ENV_ATTEMPT = "JOBWIRE_ATTEMPT"
ENV_TICKET = "JOBWIRE_TICKET"
ENV_EXPIRY = "JOBWIRE_EXPIRY_SECONDS"
# MQTT 5, 3.3.2.3.3: a four byte integer.
MAX_EXPIRY = 2**32 - 1
