"""jinja2 with the settings of transformers' apply_chat_template."""

import datetime
import json

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime.fromtimestamp(1_700_000_000, datetime.timezone.utc)


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: its body is shown, in a scope of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("show")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def show(self, caller):
        return caller()


class Refused(Exception):
    """What raise_exception raises."""


def raise_exception(message):
    raise Refused(str(message))


def tojson(value, ensure_ascii=False, indent=None, separators=None,
           sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent,
                      separators=separators, sort_keys=sort_keys)


def make_environment(finalize=None):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, finalize=finalize,
        extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    return environment


class HasAddress(Exception):
    """A template prints an object whose text is its place in memory."""


def refuse_addresses(value):
    if " at 0x" in str(value):
        raise HasAddress
    return value


ENVIRONMENT = make_environment()
STRICT_ENVIRONMENT = make_environment(refuse_addresses)


def render(template, variables):
    """Returns (text, None) or (None, error)."""
    try:
        return ENVIRONMENT.from_string(template).render(**variables), None
    except Exception as error:  # whatever a template makes Python raise
        return None, f"{type(error).__name__}: {error}"


def prints_address(template, variables):
    """True if the template prints what no other engine can print, or what it makes
    of that: then it prints something else as soon as memory is laid out anew."""
    try:
        STRICT_ENVIRONMENT.from_string(template).render(**variables)
    except HasAddress:
        return True
    except Exception:
        return False
    texts, taken = set(), []
    for _ in range(16):
        texts.add(render(template, variables))
        taken.append([{} for _ in range(1_000)])
    return len(texts) > 1
