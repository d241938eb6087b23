"""Collectors that are slow, gone, strict or behind TLS; bad flags."""

import os
import subprocess

import grpc
import pytest

from command_line import plimsoll
from conftest import model_flag
from metrics.test_metrics import metrics_address, metrics_of
from servers import CALL_SECONDS, START_SECONDS, binary, until
from tracing.collector import Collector
from tracing.traced import MODEL, generate, new_parent, new_worker

METRICS = "--metrics-listen=127.0.0.1:0"
VARIABLE = "OTEL_EXPORTER_OTLP_ENDPOINT"
DROPPED = "spans were dropped"
BACK = "the collector takes spans again"
PROGRAMS = {
    "plimsoll-planner": (),
    "plimsoll-worker": (),
    "plimsoll-gateway": ("--worker=127.0.0.1:1",),
    "plimsoll": ("serve", "model.gguf"),
}


class Nobody:
    """The address of a collector that is not there."""

    url = "http://127.0.0.1:9"  # the port for what is to be dropped


def spans_of(worker):
    """How many spans the worker's metrics call sent and dropped."""
    values = metrics_of(metrics_address(worker))
    return tuple(
        values[f'plimsoll_spans_total{{result="{result}"}}']
        for result in ("sent", "dropped")
    )


def test_a_collector_that_hangs_is_in_nobodys_way(smollm2):
    with Collector(hangs=True) as collector:
        with new_worker(collector) as worker:
            worker.await_ready()
            for _ in range(4):
                assert len(generate(worker, new_parent()[2])) >= 2
            until(lambda: collector.calls > 0, 30, "a call of the collector")
            generate(worker, new_parent()[2])
            worker.terminate()
            assert worker.process.wait(timeout=START_SECONDS) == 0, worker.log()


def test_a_collector_that_is_not_there_is_told_once_a_minute(smollm2):
    with new_worker(Nobody, METRICS) as worker:
        worker.await_ready()
        for _ in range(3):
            generate(worker, new_parent()[2])
        until(lambda: DROPPED in worker.log(), 30, "the warning")
        generate(worker, new_parent()[2])
        # Four spans each, and that of the load.
        until(lambda: spans_of(worker) == (0, 17), 30, "all spans dropped")
        assert worker.log().count(DROPPED) == 1


def test_a_collector_that_refuses_gets_each_span_once(smollm2):
    with Collector(refuses=True) as collector:
        with new_worker(collector, METRICS, "--trace-share=0") as worker:
            worker.await_ready()
            generate(worker, new_parent()[2])
            until(lambda: spans_of(worker) == (0, 4), 30, "the count")
            until(lambda: "go away" in worker.log(), what="the reason")
        assert collector.spans() == []


def test_a_collector_that_comes_back_gets_spans_again(smollm2):
    with Collector() as first:
        port = first.port
        with new_worker(first, METRICS, "--trace-share=0") as worker:
            worker.await_ready()
            trace, _, metadata = new_parent()
            generate(worker, metadata)
            first.of(trace, 4)
            first.__exit__()
            generate(worker, new_parent()[2])
            until(lambda: DROPPED in worker.log(), 30, "the warning")
            with Collector(port=port) as second:

                def arrives():
                    generate(worker, new_parent()[2])
                    return second.spans()

                until(arrives, 60, "a span")
                until(lambda: BACK in worker.log(), 30, "the good news")


@pytest.fixture(name="tls")
def made_certificates(tmp_path):
    """A folder with a CA, and the credentials of a server that it vouches for."""
    assert plimsoll("cert", "dev", str(tmp_path)).returncode == 0
    pair = [(tmp_path / name).read_bytes() for name in ("server-key.pem", "server.pem")]
    return tmp_path, grpc.ssl_server_credentials([pair])


def test_a_collector_with_tls_gets_spans(smollm2, tls):
    folder, credentials = tls
    with Collector(tls=credentials) as collector:
        with new_worker(collector, f"--otlp-ca={folder / 'ca.pem'}") as worker:
            worker.await_ready()
            trace, _, metadata = new_parent()
            generate(worker, metadata)
            assert len(collector.of(trace, 4)) == 4


def test_a_collector_with_an_unknown_certificate_gets_nothing(smollm2, tls):
    with Collector(tls=tls[1]) as collector:
        with new_worker(collector) as worker:  # the system does not know the CA
            worker.await_ready()
            generate(worker, new_parent()[2])
            until(lambda: DROPPED in worker.log(), 30, "the warning")
        assert collector.calls == 0


def run(program, *flags, **variables):
    """Runs a program that is to end by itself."""
    return subprocess.run(
        [binary(program), *PROGRAMS[program], *flags],
        capture_output=True,
        text=True,
        timeout=CALL_SECONDS,
        env={**os.environ, **variables},
        check=False,
    )


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(
    ("flag", "word"),
    [
        ("--otlp-endpoint=localhost:4317", "http://HOST:PORT"),
        ("--otlp-endpoint=http://localhost:4318/v1/traces", "http://HOST:PORT"),
        ("--trace-share=nan", "from 0 to 1"),
        ("--trace-share=1.01", "from 0 to 1"),
        ("--trace-share=-0.01", "from 0 to 1"),
    ],
)
def test_a_bad_flag_ends_the_start(program, flag, word):
    done = run(program, flag)
    assert done.returncode == 2
    assert flag.split("=")[0] in done.stderr
    assert word in done.stderr


def test_bad_authorities_end_the_start(smollm2, tmp_path):
    model = model_flag(MODEL)
    plain = run("plimsoll-worker", model, f"--otlp-endpoint={Nobody.url}", "--otlp-ca=a")
    assert plain.returncode == 2
    assert "https://HOST:PORT" in plain.stderr
    missing = str(tmp_path / "missing.pem")
    tls = "--otlp-endpoint=https://127.0.0.1:9"
    absent = run("plimsoll-worker", model, tls, f"--otlp-ca={missing}")
    assert absent.returncode == 2
    assert missing in absent.stderr


def test_the_variable_counts_where_no_flag_does(smollm2):
    bad = {VARIABLE: "localhost:4317"}
    done = run("plimsoll-worker", model_flag(MODEL), **bad)
    assert done.returncode == 2
    assert f"${VARIABLE} takes http://HOST:PORT" in done.stderr
    line = f'otlp-endpoint = "{Nobody.url}"  # default'
    shown = run("plimsoll-worker", "--print-config", **{VARIABLE: Nobody.url})
    assert line in shown.stdout
    off = run("plimsoll-worker", "--otlp-endpoint", "", "--print-config", **bad)
    assert off.returncode == 0
    assert 'otlp-endpoint = ""  # --otlp-endpoint' in off.stdout
