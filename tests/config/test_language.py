"""How code and documents are written: words that a reader of English as a second language stumbles over, and sizes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.config.prose import prose, relative, tracked

SAYS_SO = r"says? so|said so"  # allowed in names of tests, which stand beside the message
# A word that is not to be used, and what to write instead.
WORDS = {
    r"doorbells?": "name the process or message that starts the work",
    r"ill|ailing": "unhealthy",
    r"promis(?:e|es|ed|ing)": "reservation, reserve",
    r"(?:is|are|was|were|be|being|been) told": "name the Event, message or condition: 'the Event reports …'",
    r"nobody|somebody|whoever|whomever": "name the user, controller, policy or cluster",
    r"anew": "again",
    r"bears?|bearing|borne": "tolerate",
    SAYS_SO: "name the message or condition that reports it",
    r"speaks?|speaking": "name the protocol or the rights",
}
# Names that contain such a word: a user of the operating system, a page of the admin.
NAMES = re.compile(r'"nobody"|\(postgres or nobody\)')
FORBIDDEN = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS), re.IGNORECASE)
IN_NAMES = re.compile("|".join(rf"\b(?:{word})\b" for word in WORDS if word != SAYS_SO), re.IGNORECASE)
LONGEST_FILE, LONGEST_FUNCTION = 500, 60  # lines

CODE = [path for path in tracked("controlplane/*.py", "apps/*.py", "config/*.py") if "migrations" not in path.parts]
PAGES = tracked("docs/*.md", "*.md")
TESTS = [path for path in tracked("tests/*.py") if path.name != Path(__file__).name]


def test_no_forbidden_word_is_used() -> None:
    used = {
        relative(path): sorted({f"{word.lower()}: {instead(word)}" for word in words_in(path)})
        for path in [*CODE, *PAGES, *TESTS]
        if words_in(path)
    }

    assert used == {}


def test_no_function_or_class_has_a_forbidden_word_in_its_name() -> None:
    named = {
        relative(path): found
        for path in [*CODE, *TESTS]
        if (found := [name for name in _defined(path.read_text()) if IN_NAMES.search(name.replace("_", " "))])
    }

    assert named == {}


def _defined(text: str) -> list[str]:
    return re.findall(r"^ *(?:async )?(?:def|class) (\w+)", text, re.MULTILINE)


def test_nothing_is_called_told() -> None:
    """Such a name does not say whether it is a message, an Event, a report or an argument."""
    named = {
        relative(path): sorted(set(found))
        for path in [*CODE, *TESTS]
        if "told" in (text := path.read_text()).lower()
        and (found := re.findall(r"\w*(?<![a-z])told(?![a-z])\w*", text, re.IGNORECASE))
    }

    assert named == {}


def words_in(path: Path) -> list[str]:
    """Return the forbidden words in a file. Only a file that has some is read as Python, which takes long."""
    return FORBIDDEN.findall(NAMES.sub("", prose(path))) if FORBIDDEN.search(path.read_text()) else []


def instead(used: str) -> str:
    return next(advice for word, advice in WORDS.items() if re.fullmatch(word, used, re.IGNORECASE))


def test_files_and_functions_stay_short() -> None:
    long_files = {relative(path) for path in CODE if len(path.read_text().splitlines()) > LONGEST_FILE}
    long_functions = {
        f"{relative(path)}: {one.name}"
        for path in CODE
        for one in statements(ast.parse(path.read_text()))
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (one.end_lineno or 0) - one.lineno >= LONGEST_FUNCTION
    }

    assert not long_files, f"more than {LONGEST_FILE} lines"
    assert not long_functions, f"more than {LONGEST_FUNCTION} lines"


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements inside a node, however deep. Expressions, which are most of the tree, are passed over."""
    for field in ("body", "orelse", "handlers", "finalbody", "cases"):
        for inner in getattr(node, field, None) or ():
            yield inner
            yield from statements(inner)
