"""What pytest loads before the peer's suite, so that it speaks to our server.

Only what is about the peer itself is changed: where models come from, the shorter
names of its paths, and the name of the model in a request, which it does not read.
"""

import sys
import types

# The suite fetches models by it. They are not fetched here.
sys.modules.setdefault("wget", types.ModuleType("wget"))

import openai  # noqa: E402
import utils  # noqa: E402  (the suite's own)

SHORT_PATHS = ("/chat/completions", "/models", "/responses")


def _longer(path):
    is_short = any(path == short or path.startswith(f"{short}/") for short in SHORT_PATHS)
    return f"/v1{path}" if is_short else path


_alias = "model"  # model of the server that was started last
_start = utils.ServerProcess.start
_make_url = utils.ServerProcess.make_url
_make_request = utils.ServerProcess.make_request
_make_stream_request = utils.ServerProcess.make_stream_request


def _named(data):
    is_named = isinstance(data, dict) and isinstance(data.get("model"), str)
    return {**data, "model": _alias} if is_named else data


def start(self, *more, **options):
    global _alias
    _alias = self.model_alias or "model"
    return _start(self, *more, **options)


def make_url(self, path, host=None):
    return _make_url(self, _longer(path), host)


def make_request(self, method, path, data=None, *more, **options):
    return _make_request(self, method, path, _named(data), *more, **options)


def make_stream_request(self, method, path, data=None, *more, **options):
    return _make_stream_request(self, method, path, _named(data), *more, **options)


def prepare_options(self, options):
    options.json_data = _named(options.json_data)
    return options


utils.ServerPreset.load_all = staticmethod(lambda: None)
utils.ServerProcess.start = start
utils.ServerProcess.make_url = make_url
utils.ServerProcess.make_request = make_request
utils.ServerProcess.make_stream_request = make_stream_request
openai.OpenAI._prepare_options = prepare_options
