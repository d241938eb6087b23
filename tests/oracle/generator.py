"""Makes random templates of everything that the interpreter has."""

FILTERS = (
    "abs", "attr('a')", "batch(2)", "batch(2, 'x')", "capitalize", "center(9)",
    "count", "d('z')", "default('z', true)", "default", "dictsort",
    "dictsort(by='value')", "dictsort(reverse=true)", "e", "escape", "first",
    "float", "float(1.5)", "forceescape", "format(1)", "format('x', 2)",
    "groupby('a')", "indent", "indent(2, true)", "indent('> ', blank=true)",
    "int", "int(7)", "int(base=16)", "join", "join(', ')", "join('|', 'a')",
    "last", "length", "list", "lower", "items", "map('upper')",
    "map(attribute='a')", "map(attribute='a', default=0)", "map('default', 'q')",
    "max", "min", "min(attribute='a')", "reject", "reject('odd')",
    "rejectattr('a')", "rejectattr('a', 'eq', 1)", "replace('a', 'bb')",
    "replace('', '-')", "replace('l', '', 1)", "reverse", "round", "round(1)",
    "round(2, 'floor')", "round(1, 'ceil')", "safe", "select",
    "select('string')", "select('gt', 1)", "selectattr('a')",
    "selectattr('a', 'defined')", "slice(2)", "slice(3, 'f')", "sort",
    "sort(true)", "sort(attribute='a')", "sort(case_sensitive=true)", "string",
    "sum", "sum(attribute='a')", "sum(start=1)", "title", "tojson",
    "tojson(indent=2)", "tojson(ensure_ascii=true)",
    "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "trim",
    "trim('ab ')", "truncate(5)", "truncate(5, true, '')", "unique",
    "unique(attribute='a')", "upper", "urlencode", "wordcount", "nosuch",
)
TESTS = (
    "odd", "even", "divisibleby 2", "divisibleby(3)", "defined", "undefined",
    "none", "boolean", "true", "false", "integer", "float", "number", "string",
    "mapping", "sequence", "iterable", "callable", "sameas none", "escaped",
    "in [1, 'a']", "eq 1", "equalto('a')", "ne 2", "gt 1", "ge 1", "lt 2",
    "le 2", "lower", "upper", "filter", "test", "not none", "not string",
    "nosuch",
)
METHODS = (
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "strip()",
    "strip('a ')", "lstrip()", "rstrip('\\n')", "split()", "split(',')",
    "split(' ', 1)", "rsplit(' ', 1)", "rsplit(None, 1)", "splitlines()",
    "splitlines(true)", "startswith('a')", "startswith(('a', 'b'))",
    "endswith('c')", "find('b')", "rfind('b')", "index('a')", "count('a')",
    "count('')", "replace('a', 'b')", "replace('a', 'b', 1)",
    "join(['x', 'y'])", "join(seq)", "partition('b')", "rpartition('b')",
    "removeprefix('a')", "removesuffix('c')", "isalpha()", "isdigit()",
    "isalnum()", "isspace()", "isupper()", "islower()", "zfill(5)",
    "ljust(6, '.')", "rjust(6)", "center(7, '*')", "format(1, 'z', k=2)",
    "items()", "keys()", "values()", "get('a')", "get('zz', 3)", "get(1)",
    "copy()", "index(1)", "append(1)", "pop()", "a", "b", "zz", "items", "0",
)
# What suits each kind of value: its atoms, filters, methods and operators.
# Others are mixed in, most of which raise.
KINDS = {
    "text": (
        ("text", "word", "odd_text", "x", "words[1]", "table.b"),
        ("capitalize", "center(9)", "count", "d('z')", "e", "first", "float",
         "forceescape", "indent", "indent('> ', blank=true)", "int", "int(7)",
         "int(base=16)", "join('-')", "last", "length", "list", "lower",
         "map('upper')|list", "replace('a', 'bb')", "replace('', '-')",
         "reverse", "safe", "sort|join", "string", "title", "tojson",
         "tojson(ensure_ascii=true)", "trim", "trim('ab ')", "truncate(5)",
         "unique|list", "upper", "urlencode", "wordcount", "batch(2)|list"),
        ("upper()", "title()", "swapcase()", "strip()", "strip('a ')",
         "split()", "split(',')", "split(' ', 1)", "rsplit(' ', 1)",
         "splitlines(true)", "startswith('a')", "find('b')", "rfind('o')",
         "count('a')", "replace('a', 'b', 1)", "join(['x', 'y'])",
         "partition('b')", "removeprefix('a')", "isalpha()", "isupper()",
         "zfill(5)", "center(7, '*')", "rjust(6)"),
        ("+", "~", "==", "<", "in", "and", "or"),
    ),
    "number": (
        ("num", "real", "flag", "3", "2", "-1", "1.5", "0", "x", "seq[0]"),
        ("abs", "int", "float", "round", "round(1)", "round(2, 'floor')",
         "string", "default(1)", "tojson", "center(9)", "e"),
        (),
        ("+", "-", "*", "/", "//", "%", "~", "==", "<", ">=", "and", "or"),
    ),
    "list": (
        ("seq", "words", "range(1, 7, 2)", "[1, 'a']", "words[:2]", "(1, 2)"),
        ("first", "last", "length", "list", "join(', ')", "sort|list",
         "sort(true)", "unique|list", "reverse|list", "map('string')|list",
         "select|list", "reject('in', [1, 'a'])|list", "batch(2, 'x')|list",
         "slice(2)|list", "min", "max", "tojson", "tojson(indent=2)", "string",
         "map('upper')|join", "count"),
        ("count(1)", "index(1)", "copy()", "0", "append"),
        ("+", "==", "!=", "~", "and", "or"),
    ),
    "dicts": (
        ("dicts", "dicts[:3]", "dicts[:2]"),
        ("map(attribute='a')|list", "map(attribute='a', default=0)|sum",
         "selectattr('a', 'defined')|list", "selectattr('a')|list|length",
         "rejectattr('a', 'eq', 1)|list", "groupby('a', default=0)|list",
         "sort(attribute='b')|list", "unique(attribute='a')|list", "tojson",
         "join(',', attribute='a')", "first", "last", "string", "length"),
        ("0", "index(1)"),
        ("+", "==", "and"),
    ),
    "dict": (
        ("table", "{'a': 1}", "dicts[0]", "dict(b=2, a='z')"),
        ("dictsort", "dictsort(by='key', reverse=true)", "items|list", "list",
         "length", "first", "tojson", "tojson(indent=1)", "string",
         "tojson(sort_keys=true)", "tojson(separators=(',', ':'))",
         "map('upper')|list", "join"),
        ("items()", "keys()", "values()", "get('a')", "get('zz', 3)", "a", "b",
         "zz", "items", "copy()", "d.a"),
        ("==", "!=", "and", "or"),
    ),
}
NAMES = ("text", "word", "num", "real", "flag", "nothing", "seq", "words",
         "dicts", "table", "missing", "odd_text", "x", "y", "deep")
STRINGS = ("''", "'a'", "'abc'", '"b\'c"', "'a b c'", "'%s-%d'", "'{}'",
           "'{0:>5}|{k}'", "'<&>'", "'\\u00e9\\n'", "'l1\\nl2\\n\\nl3'", "'10'",
           "' 2.5 '", "'%(a)s %%'", "'Ünï ßÄ'", "'%05.1f'")
NUMBERS = ("0", "1", "2", "-1", "3", "10", "1.5", "-0.5", "2.0", "1e3", "0x1f",
           "1_000", "100000.125")

VARIABLES = {
    "text": "Hello, World of text",
    "word": "abc",
    "odd_text": " \tGr\u00fc\u00dfe\u2028 'q' \"d\" \\ \u0001 \u00a0\U0001f600 ",
    "num": 7,
    "real": 2.5,
    "flag": True,
    "nothing": None,
    "seq": [3, 1, 2, 1],
    "words": ["b", "A", "c", "a", "B"],
    "dicts": [{"a": 2, "b": "x"}, {"a": 1, "b": "Y"}, {"b": "z"},
              {"a": 1, "b": None}],
    "table": {"a": 1, "b": "two", "items": [1], "C": None, "d": {"a": "e"}},
    "deep": [[1, [2, "x"]], {"k": [{"a": []}]}, True, 0.1, None],
}


class Generator:
    """Makes templates from the random numbers of `random`."""

    def __init__(self, random):
        self._random = random

    def template(self):
        """A template of one to five statements."""
        self._left = 40
        return self._body(0, self._random.randint(1, 5))

    def _pick(self, choices):
        return self._random.choice(choices)

    def _chance(self, probability):
        return self._random.random() < probability

    def _body(self, depth, n=None, in_loop=False):
        n = self._random.randint(0, 3) if n is None else n
        return "".join(self._statement(depth, in_loop) for _ in range(n))

    def _tag(self, text):
        return (self._pick(("{%", "{%", "{%", "{%-", "{%+")) + " " + text + " "
                + self._pick(("%}", "%}", "%}", "-%}", "+%}")))

    def _data(self):
        return self._pick(("", " ", "\n", "  \n  ", "text", "\n\t", "a {b} ",
                           "x\r\n", "{# no #}", "{#- no -#}\n", "é", "\n  \n"))

    def _statement(self, depth, in_loop):
        self._left -= 1
        if self._left < 0 or depth > 4:
            return self._data()
        kinds = (self._data, self._output, self._output, self._output,
                 self._set, self._set)
        blocks = (self._if, self._for, self._for, self._macro, self._set_block,
                  self._filter_block, self._with, self._call_block, self._raw,
                  self._namespace, self._generation)
        if in_loop and self._chance(0.15):
            return self._tag(self._pick(("break", "continue")))
        if self._chance(0.45):
            return self._pick(blocks)(depth + 1, in_loop)
        return self._pick(kinds)()

    def _output(self):
        text = self.expression(0)
        begin = self._pick(("{{", "{{", "{{-"))
        if text.startswith(("-", "+")):
            begin += " "
        return f"{begin} {text} {self._pick(('}}', '}}', '-}}'))}"

    def _set(self):
        target = self._pick(("x", "y", "x", "y", "x, y", "(x, y)"))
        value = self.expression(0)
        if "," in target and self._chance(0.8):
            value = f"{self.expression(1)}, {self.expression(1)}"
        return self._tag(f"set {target} = {value}")

    def _if(self, depth, in_loop):
        out = self._tag(f"if {self.expression(1)}")
        out += self._body(depth, in_loop=in_loop)
        while self._chance(0.3):
            out += self._tag(f"elif {self.expression(1)}")
            out += self._body(depth, in_loop=in_loop)
        if self._chance(0.5):
            out += self._tag("else") + self._body(depth, in_loop=in_loop)
        return out + self._tag("endif")

    def _for(self, depth, in_loop):
        target, items = self._pick((
            ("x", self.expression(1)), ("x", "seq"), ("x", "words"),
            ("x", "dicts"), ("x, y", "table.items()"), ("x", "range(3)"),
            ("x, y", "table|dictsort"), ("x", "text[:4]"), ("y", "deep")))
        condition = ""
        if self._chance(0.25):
            condition = f" if {self.expression(1)}"
        recursive = " recursive" if self._chance(0.08) else ""
        out = self._tag(f"for {target} in {items}{condition}{recursive}")
        if self._chance(0.5):
            out += "{{ loop." + self._pick(
                ("index", "index0", "first", "last", "length", "revindex",
                 "revindex0", "depth", "previtem", "nextitem",
                 "cycle('a', 'b')", "changed(x)", "zz")) + " }}"
        if recursive and self._chance(0.5):
            out += "{{ loop([]) }}"
        out += self._body(depth, in_loop=True)
        if self._chance(0.2):
            out += self._tag("else")
            out += self._body(depth, in_loop=in_loop and not recursive)
        return out + self._tag("endfor")

    def _macro(self, depth, _):
        parameters = self._pick(("", "x", "x, y=1", "x='d', y=x", "caller=none"))
        body = self._body(depth)
        if self._chance(0.3):
            body += self._pick(("{{ varargs }}", "{{ kwargs }}",
                                "{{ caller() if caller }}", "{{ caller(1) }}"))
        arguments = self._pick(("", "1", "1, 2", "y=2", "1, 2, 3", "z=1",
                                "*[1, 2]", "**{'x': 5}"))
        return (self._tag(f"macro m({parameters})") + body
                + self._tag("endmacro")
                + self._pick(("", "{{ m(" + arguments + ") }}",
                              "{{ m.name }}{{ m.arguments }}")))

    def _call_block(self, depth, _):
        parameters = self._pick(("", "", "(x)", "(x, y=2)"))
        return ("{% macro c() %}[{{ caller(" + self._pick(("", "1", "1, 2"))
                + ") }}]{% endmacro %}" + self._tag(f"call{parameters} c()")
                + self._body(depth) + self._tag("endcall"))

    def _set_block(self, depth, in_loop):
        filters = self._pick(("", "", " | upper", " | trim | length"))
        return (self._tag(f"set x{filters}") + self._body(depth, None, in_loop)
                + self._tag("endset") + "{{ x }}")

    def _filter_block(self, depth, in_loop):
        return (self._tag("filter " + self._pick(
            ("upper", "trim", "replace('a', 'b')|lower", "indent(2)", "length",
             "title", "escape")))
            + self._body(depth, None, in_loop) + self._tag("endfilter"))

    def _with(self, depth, in_loop):
        return (self._tag(f"with x = {self.expression(1)}, y = x")
                + self._body(depth, None, in_loop) + self._tag("endwith"))

    def _raw(self, *_):
        return (self._tag("raw") + " {{ x }} {% if %} \n "
                + self._tag("endraw"))

    def _generation(self, depth, _):
        return (self._tag("generation") + self._body(depth)
                + self._tag("endgeneration"))

    def _namespace(self, depth, in_loop):
        return (self._tag(f"set ns = namespace(a={self.expression(1)})")
                + self._body(depth, None, in_loop)
                + self._tag(f"set ns.{self._pick('ab')} = {self.expression(1)}")
                + "{{ ns.a }}{{ ns.b }}")

    def expression(self, depth):
        """An expression whose parts are nested at most four deep."""
        if depth > 3:
            return self._atom()
        kind = self._random.randint(0, 15)
        inner = lambda: self.expression(depth + 1)  # noqa: E731
        if kind <= 3:
            return self._atom()
        if kind <= 6:
            return (self._suited(depth) if self._chance(0.85)
                    else f"{self._operand(depth)}|{self._pick(FILTERS)}")
        if kind == 7:
            return f"{self._operand(depth)} is {self._pick(TESTS)}"
        if kind <= 9:
            return (self._suited(depth) if self._chance(0.85)
                    else f"{self._operand(depth)}.{self._pick(METHODS)}")
        if kind == 10 and self._chance(0.7):
            atoms, _, _, operators = self._pick(tuple(KINDS.values()))
            return (f"{self._pick(atoms)} {self._pick(operators)} "
                    f"{self._pick(atoms)}")
        if kind == 10:
            operator = self._pick(("+", "-", "*", "/", "//", "%", "~", "and",
                                   "or", "+", "~"))
            return f"{inner()} {operator} {inner()}"
        if kind == 11:
            operator = self._pick(("==", "!=", "<", "<=", ">", ">=", "in",
                                   "not in"))
            return f"{inner()} {operator} {inner()}"
        if kind == 12:
            return self._pick((f"not {inner()}", f"-{self._atom()}",
                               f"{inner()} if {inner()} else {inner()}",
                               f"{inner()} if {inner()}",
                               f"{self._atom()} ** {self._pick('0123')}"))
        if kind == 13:
            return f"{self._pick(NAMES)}[{self._subscript(depth)}]"
        if kind == 14:
            return self._pick((f"[{inner()}, {inner()}]", f"({inner()},)",
                               f"{{'a': {inner()}, {self._atom()}: 1}}",
                               f"({inner()})", "[]", "{}", "()"))
        return self._pick((f"range({self._atom()})", "range(1, 7, 2)",
                           f"dict(a={inner()})", "dict([('a', 1)])",
                           f"namespace(a={inner()}).a", "cycler('p', 'q').next()",
                           "joiner('; ')()", "raise_exception('no')",
                           "strftime_now('%Y-%m-%d %b %H')",
                           f"{inner()} < {inner()} < {inner()}"))

    def _suited(self, depth):
        """A filter or a method of a value that has it."""
        atoms, filters, methods, _ = self._pick(tuple(KINDS.values()))
        atom = self._pick(atoms)
        if methods and self._chance(0.4):
            return f"{atom}.{self._pick(methods)}"
        if atom.startswith("-"):
            atom = f"({atom})"
        text = f"{atom}|{self._pick(filters)}"
        return f"({text})" if depth > 0 and self._chance(0.3) else text

    def _operand(self, depth):
        return (self._atom() if self._chance(0.6)
                else f"({self.expression(depth + 1)})")

    def _subscript(self, depth):
        bound = lambda: self._pick(("", "1", "-1", "2", "0", "-3", "9"))  # noqa
        if self._chance(0.5):
            step = self._pick(("", "", ":", ":-1", ":2", ":-2"))
            return f"{bound()}:{bound()}{step}"
        return self._pick(("0", "-1", "1", "'a'", "'b'", "9", "'items'", "true",
                           self.expression(depth + 1)))

    def _atom(self):
        return self._pick((self._pick(NAMES), self._pick(NAMES),
                           self._pick(NAMES), self._pick(STRINGS),
                           self._pick(STRINGS), self._pick(NUMBERS),
                           self._pick(("true", "false", "none"))))
