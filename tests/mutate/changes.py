"""The small changes of a module that `make mutate` tries, made by the operators of cosmic-ray."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import parso
from cosmic_ray.ast import ast_nodes  # type: ignore[import-untyped]
from cosmic_ray.mutating import MutationVisitor  # type: ignore[import-untyped]
from cosmic_ray.plugins import get_operator  # type: ignore[import-untyped]

# The operators of cosmic-ray that are tried. Others add little: a test that notices `<=` and `!=` for `<` notices `>`.
COMPARISONS = """
    Eq_NotEq Eq_LtE Eq_GtE NotEq_Eq NotEq_Lt NotEq_Gt Is_IsNot IsNot_Is
    Lt_LtE Lt_NotEq Lt_GtE LtE_Lt LtE_Eq LtE_Gt Gt_GtE Gt_NotEq Gt_LtE GtE_Gt GtE_Eq GtE_Lt
"""
ARITHMETIC = """
    Add_Sub Sub_Add Mul_Div Div_Mul Div_FloorDiv FloorDiv_Div Mod_Mul Pow_Mul
    BitOr_BitAnd BitAnd_BitOr BitXor_BitOr LShift_RShift RShift_LShift
"""
OTHERS = """
    AddNot ReplaceUnaryOperator_Delete_Not ReplaceUnaryOperator_Delete_USub ReplaceUnaryOperator_Delete_Invert
    ReplaceAndWithOr ReplaceOrWithAnd ReplaceTrueWithFalse ReplaceFalseWithTrue
    ReplaceBreakWithContinue ReplaceContinueWithBreak ZeroIterationForLoop ExceptionReplacer
"""
OPERATORS = (
    *(f"core/ReplaceComparisonOperator_{pair}" for pair in COMPARISONS.split()),
    *(f"core/ReplaceBinaryOperator_{pair}" for pair in ARITHMETIC.split()),
    *(f"core/{name}" for name in OTHERS.split()),
)

_UNORDERED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.NotEq,
    ast.Gt: ast.NotEq,
    ast.LtE: ast.Eq,
    ast.GtE: ast.Eq,
}


@dataclass(frozen=True)
class Change:
    """A changed module: where, which line becomes which, and its whole source."""

    function: str  # with the classes around it; "": outside of functions
    number: int  # of the line
    before: str
    after: str
    source: str


def changes(source: str, texts: Collection[str] = ()) -> Iterator[Change]:
    """Return the changes of a module, line by line.

    Left out are those of annotations, of signatures, of options of classes (`frozen`) and of constant defaults of
    fields, because most classes state them for their readers, and no code depends on them. A comparison with a text is
    not made one of order, because the order of texts has no meaning. `texts`: names of constants that are texts.
    """
    found = sorted(_changed_sources(source, texts))
    names = functions(source)
    for number, changed in found:
        before, after = source.splitlines()[number - 1], changed.splitlines()[number - 1]
        yield Change(names.get(number, ""), number, before.strip(), after.strip(), changed)


def _changed_sources(source: str, texts: Collection[str]) -> set[tuple[int, str]]:
    """Return each changed source with the number of its changed line."""
    tree, original = parso.parse(source), _behaviour(source, texts)
    stored = pickle.dumps(tree)  # a tree is copied in less time than it is parsed
    found: set[tuple[int, str]] = set()
    for name in OPERATORS:
        operator = get_operator(name)()
        count = sum(1 for node in ast_nodes(tree) for _ in operator.mutation_positions(node))
        for occurrence in range(count):
            try:
                changed = MutationVisitor(occurrence, operator).walk(pickle.loads(stored)).get_code()
            except AttributeError:  # an exception written as `module.Name`, which cosmic-ray cannot replace
                continue
            if _behaviour(changed, texts) not in (None, original):
                pairs = zip(source.splitlines(), changed.splitlines(), strict=False)
                found.add((next(n for n, (a, b) in enumerate(pairs, 1) if a != b), changed))
    return found


def _behaviour(source: str, texts: Collection[str]) -> str | None:
    """Return the tree of a source without what only readers and type checkers use. None: the source is invalid."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            node.args, node.posonlyargs, node.kwonlyargs = [*node.posonlyargs, *node.args, *node.kwonlyargs], [], []
            node.defaults, node.kw_defaults = [d for d in (*node.defaults, *node.kw_defaults) if d is not None], []
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.Compare) and any(_is_text(one, texts) for one in (node.left, *node.comparators)):
            node.ops = [_UNORDERED.get(type(op), type(op))() for op in node.ops]
        elif isinstance(node, ast.ClassDef):
            _plain_class(node)
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.copy_location(ast.Constant(0), node)
    return ast.dump(tree)


def _is_text(node: ast.expr, texts: Collection[str]) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in texts


def _plain_class(node: ast.ClassDef) -> None:
    """Remove the options of a class and of its decorators, and the constant defaults of its fields."""
    node.keywords = []
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            decorator.keywords = []
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and isinstance(field.value, ast.Constant):
            field.value = ast.copy_location(ast.Constant(0), field.value)


def functions(source: str) -> dict[int, str]:
    """Return the name of the innermost function around each line, with the classes and functions around it."""
    names: dict[int, str] = {}

    def visit(node: ast.AST, around: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            inside = around
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inside = (*around, child.name)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                assert child.end_lineno is not None
                names.update(dict.fromkeys(range(child.lineno, child.end_lineno + 1), ".".join(inside)))
            visit(child, inside)

    visit(ast.parse(source), ())
    return names
