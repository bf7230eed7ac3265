"""Environments of CEL: one that checks the types of an expression, and one that runs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import permutations
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_math, ext_optional, ext_strings
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)

from controlplane.wire.cel import authorizer
from controlplane.wire.cel.functions import FUNCTIONS, OWN_TYPES, Function

MAX_EXPRESSION = 16384  # characters
_BASIC = {
    "string": cel.Type.STRING,
    "bytes": cel.Type.BYTES,
    "bool": cel.Type.BOOL,
    "int": cel.Type.INT,
    "uint": cel.Type.UINT,
    "double": cel.Type.DOUBLE,
    "timestamp": cel.Type.TIMESTAMP,
    "duration": cel.Type.DURATION,
    "dyn": cel.Type.DYN,
}
_KNOWN_FILES = (descriptor_pb2, any_pb2, struct_pb2, timestamp_pb2, duration_pb2, wrappers_pb2)
_COMPARISONS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
# A text, or a name that does not follow a dot.
_TOKEN = re.compile(
    r"""[rRbB]{0,2}(?:\"{3}(?:\\.|[^\\])*?\"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"|//[^\n]*|(?P<name>(?<![\w.])[A-Za-z_]\w*)",
    re.DOTALL,
)
_UNDECLARED = re.compile(
    r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): undeclared reference to '(?P<root>[^'.]+)\.(?P<rest>[^']+)' "
    r"\(in container ''\)\n \| (?P<source>[^\n]*)\n \| \.*\^"
)
_ERRORS = re.compile(r"\n(?=ERROR: )")  # an error may be reported twice
_WELL_KNOWN = re.compile(r"google\.protobuf\.(Timestamp|Duration)\b")
_NO_OVERLOAD = re.compile(
    r"ERROR: <input>:\d+:(?P<column>\d+): found no matching overload for '(?P<name>\w+)' applied to "
    r"'\((?P<target>[^,']+)(?:, )?(?P<rest>[^']*)\)'\n \| (?P<source>[^\n]*)"
)
_NOISE = re.compile(r" not found in struct '[^']*'| \[[A-Z_]+\]$")


class CompileError(ValueError):
    """An expression that is no CEL, names what does not exist, or has wrong types. The message names the place."""


def type_of(text: str) -> Any:
    """Return the type of a text such as "list(int)", "map(string, dyn)" or the name of a type of Kubernetes."""
    if text in _BASIC:
        return _BASIC[text]
    if text.startswith("list("):
        return cel.Type.List(type_of(text[5:-1]))
    if text.startswith("map(string, "):
        return cel.Type.Map(cel.Type.STRING, type_of(text[12:-1]))
    return cel.Type(text)


def names_in(expression: str) -> set[str]:
    """Return the names of an expression that are no fields: variables, functions and macros."""
    return {found["name"] for found in _TOKEN.finditer(expression) if found["name"]}


def renamed(expression: str, name: str, by: str) -> str:
    """Return an expression in which another text stands for a variable."""
    return _TOKEN.sub(lambda found: by if found["name"] == name else found[0], expression)


def checker(variables: Mapping[str, str], file: Any = None) -> Any:
    """Return an environment that compiles expressions with these variables and checks their types.

    file: the FileDescriptorProto of the types "schema.*" of variables; None: there are none.
    """
    pool = descriptor_pool.DescriptorPool()
    for module in _KNOWN_FILES:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    for package, name in (one.rsplit(".", 1) for one in (*OWN_TYPES, *authorizer.TYPES)):
        own = descriptor_pb2.FileDescriptorProto(name=f"{package}.{name}.proto", package=package)
        own.message_type.add(name=name)
        pool.AddSerializedFile(own.SerializeToString())
    if file is not None:
        pool.AddSerializedFile(file.SerializeToString())
    types = {name: type_of(text) for name, text in variables.items()}
    return cel.NewEnv(pool, variables=types, extensions=[*_library(), _kubernetes(typed=True)])


@lru_cache(maxsize=64)
def runner(variables: tuple[str, ...]) -> Any:
    """Return the environment that runs expressions with these variables. Their types were checked before."""
    types = dict.fromkeys(variables, cel.Type.DYN)
    return cel.NewEnv(variables=types, extensions=[*_library(), _kubernetes(typed=False)])


def compiled(environment: Any, expression: str) -> Any:
    """Return a compiled expression. Raises CompileError."""
    if len(expression) > MAX_EXPRESSION:
        raise CompileError(f"the expression has {len(expression)} characters; at most {MAX_EXPRESSION} are allowed")
    try:
        return environment.compile(expression)
    except RuntimeError as error:
        text = _cleaned(str(error)).removeprefix("INVALID_ARGUMENT: ")
        text = _WELL_KNOWN.sub(lambda name: name[1].lower(), "\n".join(dict.fromkeys(_ERRORS.split(text))))
        text = _UNDECLARED.sub(_of_the_root, text)
        raise CompileError(_NO_OVERLOAD.sub(_of_the_target, text)) from error


def _of_the_root(found: re.Match[str]) -> str:
    """Return the message of an unknown variable without the fields that follow it, at the place of the variable."""
    name = f"{found['root']}.{found['rest']}"
    column = int(found["column"]) - len(name.rpartition(".")[0])
    place = f"ERROR: <input>:{found['line']}:{column}: undeclared reference to '{found['root']}' (in container '')"
    return f"{place}\n | {found['source']}\n | {'.' * (column - 1)}^"


def _of_the_target(found: re.Match[str]) -> str:
    """Return the message of wrong arguments: those of a method stand behind its target, as Kubernetes words it."""
    is_method = found["source"][: int(found["column"]) - 1].rstrip().endswith(f".{found['name']}")
    arguments = f"({found['target']}{', ' * bool(found['rest'])}{found['rest']})"
    return found[0].replace(f"'{arguments}'", f"'{found['target']}.({found['rest']})'") if is_method else found[0]


def run(program: Any, values: Mapping[str, Any]) -> Any:
    """Return the value of a compiled expression. Raises ValueError with the reason if it has none."""
    try:
        found = program.eval(data=dict(values))
    except MemoryError as error:
        raise ValueError("needs more memory than it may have") from error
    except RuntimeError as error:
        raise ValueError(_runtime_message(str(error))) from error
    if found.type() == cel.Type.ERROR:
        raise ValueError(_runtime_message(str(found.plain_value())))
    return found.plain_value()


def returns(program: Any, name: str) -> bool:
    """Test whether an expression returns a basic type, such as "bool". What is found at run time only, counts."""
    return program.return_type() in (_BASIC[name], cel.Type.DYN)


def _runtime_message(text: str) -> str:
    """Return the message of an error at run time, in the words of Kubernetes where these are known."""
    text = _cleaned(text)
    missing = re.search(r'Key not found in map : "(.*)"', text)
    if missing:
        return f"no such key: {missing[1]}"
    if "Iteration budget exceeded" in text:
        return "the loops of the expression need more than 10000 steps: add maxItems to its lists or simplify it"
    return re.sub(r"^[A-Z_]+: ", "", text)


def _cleaned(text: str) -> str:
    return _NOISE.sub("", text)


def _library() -> list[Any]:
    return [ext_strings.ExtStrings(2), ext_optional.ExtOptional(), ext_math.ExtMath()]


def _kubernetes(*, typed: bool) -> Any:
    """Return Kubernetes' functions. `typed`: with types for the compiler; else with types for the runtime."""
    by_name: dict[str, list[Function]] = {}
    for function in (*FUNCTIONS, *authorizer.FUNCTIONS):
        by_name.setdefault(function.name, []).append(function)
    make = _typed_overloads if typed else _run_overloads
    declared = [cel.FunctionDecl(name, list(make(functions))) for name, functions in by_name.items()]
    if typed:  # the runtime compares numbers of any types
        declared += [cel.FunctionDecl(operator, list(_comparisons(operator))) for operator in _COMPARISONS]
    return cel.CelExtension("kubernetes", declared)


def _typed_overloads(functions: Iterable[Function]) -> Iterable[Any]:
    for function in functions:
        for signature in function.signatures:
            types = [type_of(text) for text in signature.arguments]
            name = _id(function, signature.arguments)
            yield cel.Overload(name, type_of(signature.result), types, function.is_member, function.call)


def _comparisons(operator: str) -> Iterable[Any]:
    """Yield the overloads that compare numbers of two types, as Kubernetes allows it."""
    for left, right in permutations(("int", "uint", "double"), 2):
        types = [type_of(left), type_of(right)]
        name = f"{_COMPARISONS[operator]}_{left}_{right}"
        yield cel.Overload(name, cel.Type.BOOL, types, False, lambda *arguments: None)  # it is never run


def _run_overloads(functions: Iterable[Function]) -> Iterable[Any]:
    for function in functions:
        columns = zip(*(signature.arguments for signature in function.signatures), strict=True)
        types = [_run_type(set(column)) for column in columns]
        arguments = [cel.Type.DYN if text == "dyn" else type_of(text) for text in types]
        yield cel.Overload(_id(function, types), cel.Type.DYN, arguments, function.is_member, function.call)


def _run_type(texts: set[str]) -> str:
    """Return what the runtime knows of these types: their common basic type, a list, or nothing."""
    if all(text.startswith("list(") for text in texts):
        return "list(dyn)"
    (first, *others) = texts
    return first if not others and first in _BASIC else "dyn"


def _id(function: Function, arguments: Iterable[str]) -> str:
    words = re.sub(r"\W+", "_", "_".join(arguments))
    return f"{function.name.replace('.', '_')}_{'member' if function.is_member else 'global'}_{words}"
