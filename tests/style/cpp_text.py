"""Reads C++ as text: where its functions are, and which parameters they have."""

import re

# What has no braces of code: texts, characters, comments, lines of the preprocessor.
NO_CODE = re.compile(
    r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*|/\*(?:.|\n)*?\*/|^[ \t]*#(?:[^\n\\]|\\(?:.|\n))*$",
    re.MULTILINE)
# What opens a scope in which functions are, and what opens a list of values.
SCOPE = re.compile(r"^((HWY_\w+\(.*\) )?(inline )?namespace\b|extern\b(?!.*\()"
                   r"|(template <.*> )?(class|struct|union|enum)\b)|^$")
VALUES = re.compile(r"=[\w:<>, ]*\(?$|^[^(]*$")

# What stands before brackets among declarations and names no function: a macro, or
# one of these words.
NO_FUNCTION = re.compile(r"[A-Z][A-Z0-9_]+|__\w+|alignas|decltype|explicit|noexcept"
                         r"|requires|static_assert")
# A parameter begins with a type and has a name. No expression has two words beside
# each other, except for operators. A star or an ampersand between them may be one.
OPERATOR_WORD = (r"(?!(?:new|delete|sizeof|co_await|throw|typename|not|compl"
                 r"|and|or|xor|bitand|bitor|not_eq|and_eq|or_eq|xor_eq)\b)")
TYPE_AND_NAME = rf"{OPERATOR_WORD}[\w:]+(?:<>)?{{}}{OPERATOR_WORD}[\w:<>*& ]*\w(?:\[\])*"
CERTAIN_PARAMETER = re.compile(TYPE_AND_NAME.format(r"\s+(?=\w)") + r"\s*(=|$)")
PARAMETER = re.compile(TYPE_AND_NAME.format(r"\s*[\s*&]\s*") + r"\s*(=|$)")
ACCESS = re.compile(r"^\s*((public|private|protected)\s*:\s*)+")
CLASS = re.compile(r"^(template <.*> )?(class|struct|union)\b")
TEXT_MARKS = "\"'R"


def code_of(text):
    """C++ code in its places, with spaces for what is none."""
    return NO_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def functions(text):
    """Yields (first line, lines) for each function that C++ code defines."""
    code = code_of(text)
    scopes = []  # what is open: the begin of its head, and what it is
    begin = 0
    for brace in re.finditer(r"[{};]", code):
        if brace[0] == "{":
            head = code[begin:brace.start()]
            words = " ".join(head.split())
            kind = "inside"
            if not scopes or scopes[-1][1] == "scope":
                kind = ("scope" if SCOPE.search(words) else
                        "values" if VALUES.search(words) else "function")
            scopes.append((begin + len(head) - len(head.lstrip()), kind))
        elif brace[0] == "}" and scopes:
            start, kind = scopes.pop()
            if kind == "function":
                yield (code.count("\n", 0, start) + 1,
                       code.count("\n", start, brace.start()) + 1)
        begin = brace.end()


def opens(code, at):
    """True if a bracket opens at `at`. `<` is one behind a word, or compares."""
    return (code[at] in "([{" or code[at] == "<"
            and re.search(r"\w\s?$", code[:at]) is not None
            and not code[:at].endswith("operator"))


def end_of(code, begin):
    """Where the bracket that opens at `begin` is closed; None if it is not."""
    open_ones = ""
    for at in range(begin, len(code)):
        if opens(code, at):
            open_ones += code[at]
        elif code[at] == ">" and code[at - 1] != "-" and open_ones.endswith("<"):
            open_ones = open_ones[:-1]
        elif code[at] in ")]}":
            open_ones = open_ones.rstrip("<")[:-1]  # a `<` left open compares
        if not open_ones:
            return at
    return None


def pieces(code):
    """The parts of a list between its commas, without what is in their brackets."""
    parts = [""]
    at = 0
    while at < len(code):
        end = end_of(code, at) if opens(code, at) else None
        if end is not None:
            parts[-1] += code[at] + code[end]
            at = end
        elif code[at] == ",":
            parts.append("")
        else:
            parts[-1] += code[at]
        at += 1
    return [" ".join(part.split()) for part in parts if part.strip()]


def parameters_of(head, parameter):
    """The name of the function that `head` declares, and its parameters.

    Both are empty if it declares none: then no part of the list in it looks like a
    `parameter`. An expression has no such part, and all parts are of one kind.
    """
    if head.startswith(","):  # what follows a `}` in a constructor's list
        return "", []
    at = 0
    template = re.match(r"template\s*(?=<)", head)
    if template:
        at = (end_of(head, template.end()) or len(head)) + 1
    while at < len(head) and head[at] != "=":
        if opens(head, at):
            end = end_of(head, at)
            if end is None:
                break
            name = re.search(r"\w+\s*$", head[:at])
            if head[at] == "(" and name and not NO_FUNCTION.fullmatch(name[0].strip()):
                parts = pieces(head[at + 1:end])
                if any(map(parameter.match, parts)):
                    return name[0].strip(), parts
                break
            at = end
        at += 1
    return "", []


def declared(text):
    """Yields (line, name, parameters) for each function that C++ code declares.

    It looks at namespaces and classes, and not into functions: there are no calls.
    """
    code = NO_CODE.sub(
        lambda m: re.sub(r"[^\n]", m[0][0] if m[0][0] in TEXT_MARKS else " ", m[0]),
        text)
    scopes = []  # for each open brace: whether it is a scope, and whether a class
    begin = 0
    for mark in re.finditer(r"[{};]", code):
        head = ACCESS.sub("", code[begin:mark.start()]).lstrip()
        if mark[0] != "}" and all(is_scope for is_scope, _ in scopes):
            # A variable of a namespace may be declared with a list of values.
            is_certain = mark[0] == "{" or (scopes and scopes[-1][1])
            name, parameters = parameters_of(
                head, PARAMETER if is_certain else CERTAIN_PARAMETER)
            if parameters:
                line = code.count("\n", 0, mark.start() - len(head)) + 1
                yield line, name, parameters
        if mark[0] == "{":
            words = " ".join(head.split())
            is_scope = bool(words and SCOPE.search(words))
            scopes.append((is_scope, bool(CLASS.search(words))))
        elif mark[0] == "}" and scopes:
            scopes.pop()
        begin = mark.end()
