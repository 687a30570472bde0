"""Fails if a test ran on no backend: `python tests/nowhere.py FOLDER`, as `make test` ends.

With `RAMET_TEST_RECORD=FOLDER/NAME`, conftest.py writes which tests there are, and which were
skipped or ran. Marks and skips choose where a test runs; together, they may choose nowhere.
"""

import re
import sys
from pathlib import Path

NOWHERE = (
    r"`make hunt` plays many programs",
    r"`make hunt` reads many files",
    r"only Keras can tell",
    r"it has no graph",
    r"needs chromium",
    r"Keras \S+ cannot do this",
    r"older versions of Keras do not have it",
    r"this system",
    r"Linux",
    r"there is no compiler",
    r"could not import 'keras_hub'",
)
"""Reasons, as patterns, for which a test may be skipped wherever it is tried."""


def main(folder: Path) -> int:
    """Print the tests that ran nowhere; return how many there are, at most 1."""
    known: set[str] = set()
    ran: set[str] = set()
    reasons: dict[str, str] = {}
    for record in sorted(folder.glob("*.collected")):
        known.update(record.read_text(encoding="utf-8").splitlines())
    for record in sorted(folder.glob("*.outcomes")):
        for line in record.read_text(encoding="utf-8").splitlines():
            test, outcome, reason = line.split("\t")
            if outcome == "skipped":
                reasons[test] = reason
            else:
                ran.add(test)
    listed = re.compile("|".join(NOWHERE))
    nowhere = [
        f"{test}: {reasons.get(test, 'deselected')}"
        for test in sorted(known - ran)
        if not listed.search(reasons.get(test, ""))
    ]
    if not known or nowhere:
        print("\n".join(["tests that ran on no backend:", *nowhere]), file=sys.stderr)  # noqa: T201 this is what it is for
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
