"""Where sealed files are: a folder, or a URI of an object store, opened by pyarrow.fs.

Where an S3 store of one's own is, the URI says (`s3://bucket/folder?endpoint_override=HOST:PORT&scheme=http`),
or AWS_ENDPOINT_URL. Keys never stand in it: the SDK takes them from the environment or ~/.aws/credentials.
"""

import os
import re
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from jobwire.core.errors import ConfigError, StorageError
from jobwire.storage.failures import storage_failure

_S3_OPTIONS = ("endpoint_override", "region", "scheme", "tls_ca_file_path")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
# The SDK gives up a silent connection after 3 s, and by default tries ten times: 99 s for one question.
_TRIES = 3
_OTHERWISE = "see that the store runs and is to be reached from here; then the same goes on where it was"
# What the SDK says, in any of these words, and what to do then.
_REMEDIES = (
    (
        ("ACCESS_DENIED", "SIGNATURE", "ACCESS_KEY", "CLIENT_TOKEN", "EXPIRED", "status 401", "status 403"),
        "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials, and their rights",
    ),
    (("NO_SUCH_BUCKET",), "create the bucket, or correct `history`"),
    # Since 2025 the SDK appends a checksum to each upload, which not every store can read.
    (
        ("status 411", "status 501", "MissingContentLength", "NotImplemented", "content-sha256"),
        "set AWS_REQUEST_CHECKSUM_CALCULATION=when_required: this store does not know appended checksums",
    ),
    (("SSL connect error",), "a store without TLS: add scheme=http to the options of the URI"),
)


def joined(place: str, name: str) -> str:
    """Return `name` below `place`, before the options of a URI."""
    head, mark, options = place.partition("?") if "://" in place else (place, "", "")
    return f"{head.rstrip('/')}/{name}{mark}{options}"


def opened(place: str) -> tuple[Any, str]:
    """Return the file system and the path in it. Raises ConfigError for a wrong URI, StorageError."""
    if "://" not in place:
        return pyarrow.fs.LocalFileSystem(), place
    try:
        return _s3(place) if place.startswith("s3://") else pyarrow.fs.FileSystem.from_uri(place)
    except pa.ArrowInvalid as error:
        # Arrow repeats the URI, in which a key may stand: nothing is chained here.
        cause = str(error).replace(place, _public(place))
        raise ConfigError(f"not a place for sealed files: {cause}", hint="see docs/metrics.md") from None
    except OSError as error:
        raise failed("open", place, error) from error


def _s3(place: str) -> tuple[Any, str]:
    parts = urlsplit(place)
    options = dict(parse_qsl(parts.query))
    if "@" in parts.netloc or not set(options) <= set(_S3_OPTIONS):
        raise ConfigError(
            "an S3 URI is s3://BUCKET/FOLDER, with options of " + ", ".join(_S3_OPTIONS),
            hint="keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or ~/.aws/credentials",
        )
    for endpoint in filter(None, map(os.environ.get, _ENDPOINTS)):
        options.setdefault("endpoint_override", endpoint)
    if not {"region", "endpoint_override"} & set(options):
        # AWS answers for a bucket in its region only.
        options["region"] = pyarrow.fs.resolve_s3_region(parts.netloc)
    filesystem = pyarrow.fs.S3FileSystem(
        **options,
        # What fits into one part is one request, which a store takes whole or not at all.
        allow_delayed_open=True,
        retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )
    return filesystem, parts.netloc + unquote(parts.path).rstrip("/")


def check_bucket(place: str, filesystem: Any, path: str) -> None:
    """Raise StorageError where there is no bucket: in one that is missing a listing finds just nothing."""
    bucket = path.partition("/")[0]
    if (
        isinstance(filesystem, pyarrow.fs.S3FileSystem)
        and filesystem.get_file_info(bucket).type is pyarrow.fs.FileType.NotFound
    ):
        raise failed("list", place, OSError(f"NO_SUCH_BUCKET: the bucket {bucket} does not exist"))


def failed(action: str, place: str, error: OSError) -> StorageError:
    """Return the error for a failed call; the fact `away` is True where a store did not answer at all."""
    if error.errno is not None and "://" not in place:
        return storage_failure(action, place, error)
    # What Arrow was doing stands before it, with the path once more.
    text = str(error)
    cause = text[max(0, text.find("AWS Error ")) :]
    remedies = (remedy for said, remedy in _REMEDIES if any(words in cause for words in said))
    return StorageError(
        f"cannot {action} {_public(place)}: {cause}",
        hint=next(remedies, _OTHERWISE),
        retry=True,
        away="NETWORK_CONNECTION" in cause,
    )


def _public(place: str) -> str:
    """Return the place without what may hold a key."""
    return re.sub("//[^/]*@", "//", place.partition("?")[0])
