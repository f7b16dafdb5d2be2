"""What an exception of the Hub's client means: worth another try, or something for the user to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from catalog.errors import CatalogError
from catalog.guard import first_line

TRANSIENT = (408, 423, 429, 500, 502, 503, 504)
ADVICE = {
    401: "the Hub does not know who you are ({said}): log in with `hf auth login`, or set HF_TOKEN",
    403: "your token may not write to {repo} ({said}). Offer the runs instead: the same command with --pr; "
         "or log in with a token that may write: `hf auth login`",
    404: "no dataset {repo} that your token may see ({said}): check the name, or log in with `hf auth login`",
}  # fmt: skip
LONGEST_WAIT = 300  # seconds; what the Hub asks for beyond is left to the user


class Again(Exception):
    """Another try may mend it, after a new look at the Hub; `wait`: seconds the Hub asked for; `answered`: it did answer."""

    def __init__(self, why: str, wait: float = 0, answered: bool = True) -> None:
        super().__init__(why)
        self.wait, self.answered = wait, answered


@contextmanager
def explained(repo: str) -> Iterator[None]:
    """Turn what the Hub's client raises into `Again` or into an error that says what to do; bugs pass.

    Raises:
        Again: Somebody else committed, the Hub is busy, or the line is bad.
        CatalogError: Anything that another try does not mend.
    """
    from httpx2 import HTTPError
    from huggingface_hub.errors import LocalEntryNotFoundError, LocalTokenNotFoundError, OfflineModeIsEnabled

    try:
        yield
    except OfflineModeIsEnabled as error:
        raise CatalogError("HF_HUB_OFFLINE is set, publishing needs the network: unset it") from error
    except LocalTokenNotFoundError as error:
        raise CatalogError(f"no token to publish to {repo}: log in with `hf auth login`, or set HF_TOKEN") from error
    except LocalEntryNotFoundError as error:  # how a download says that the Hub did not answer
        raise meaning_of(error.__cause__, repo) if isinstance(error.__cause__, HTTPError) else Again(first_line(error)) from error
    except HTTPError as error:
        raise meaning_of(error, repo) from error
    except RuntimeError as error:  # how an upload says what happened to a large file
        raise meaning_of(error.__cause__, repo) if isinstance(error.__cause__, HTTPError) else Again(first_line(error)) from error
    except ValueError as error:
        if not str(error).startswith("Invalid metadata"):  # an answer of the Hub, raised as if it were an argument's fault
            raise
        raise CatalogError(
            f"the Hub does not take the card of {repo}: {error}. Mend --license, or the YAML of its README.md on the Hub"
        ) from error


def meaning_of(error: BaseException, repo: str) -> Exception:
    """What an error of the HTTP client, with or without an answer of the Hub, asks for."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    if not isinstance(error, HfHubHTTPError):
        return Again(f"the Hub ({constants.ENDPOINT}) did not answer ({type(error).__name__})", answered=False)
    status, said = error.response.status_code, error.server_message or f"HTTP {error.response.status_code}"
    if status in (409, 412):
        return Again("somebody else has just committed")
    if status in TRANSIENT:
        return Again(f"the Hub answered {status}", wait_asked(error))
    advice = ADVICE.get(status, "the Hub refused what was sent to {repo}: {said}")
    return CatalogError(advice.format(repo=repo, said=said))


def wait_asked(error: BaseException) -> float:
    """Seconds to wait that an answer asks for, 0 where it does not say.

    Raises:
        CatalogError: They are too many to wait for.
    """
    from huggingface_hub.errors import HfHubHTTPError
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]

    if not isinstance(error, HfHubHTTPError):
        return 0
    after = error.response.headers.get("Retry-After", "")
    limit = parse_ratelimit_headers(error.response.headers)
    seconds = int(after) if after.isdigit() else limit.reset_in_seconds if limit and limit.remaining == 0 else 0
    if seconds > LONGEST_WAIT:
        raise CatalogError(f"the Hub asks to wait {seconds} s before the next commit: run the same command again after that")
    return seconds
