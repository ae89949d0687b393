"""Versions of the code that results depend on: numbers raised by hand, carried by every record of a run.

Raise the number of a subject when the same seed and budget may give another mapping, another figure, or clearly more
work in the same time. Leave it alone when code is moved, renamed, documented or tidied. Where only some programs are
concerned, such as those with loops, delete their records instead, and make them again. A change of code that several
subjects share raises each of them; a change of the game raises `game` alone, which every record carries. Older numbers
keep their records apart from each other; 0 stands for code from before the subject had a number.
"""

from .json_lines import Record

# Everything in `env` that a figure depends on: rules, cost models, simulator, objectives, target tables.
GAME = "game"
# The agent trained from nothing: self-play, search, replay, learner, and the settings of the benchmarks that train it.
TRAINING = "training"
# The solver `guided`, with a policy and without; the policy itself is named by its hash.
GUIDED = "guided"

VERSIONS = {
    GAME: 1,
    TRAINING: 11,
    GUIDED: 18,
    "anneal": 15,
    "beam": 7,
    "cem": 11,
    "egrl": 11,
    "flags": 7,
    "greedy": 12,
    "milp": 12,
    "order-search": 12,
    "random": 6,
    "restarts": 6,
    "xla": 7,
}


def versions_of(subject: str) -> dict[str, int]:
    """Returns the present versions of a subject and of the game, as a record keeps them.

    Raises:
      KeyError: the subject has no version.
    """
    if subject not in VERSIONS:
        raise KeyError(f"{subject}: has no version; give it one in benchmarks/common/versions.py")
    return {GAME: VERSIONS[GAME], subject: VERSIONS[subject]}


def is_current(record: Record) -> bool:
    """Returns whether a record was made by the present versions of its subject and of the game."""
    made_by: dict[str, int] = record["versions"]
    return all(VERSIONS.get(subject) == number for subject, number in made_by.items())


def count_current(records: list[Record]) -> str:
    """Returns the number of records that were made by the present versions, in words for a page."""
    return f"{sum(is_current(record) for record in records) or 'none'} by the present version"
