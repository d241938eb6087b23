#!/usr/bin/env python3
"""Prints the figures that the README shows: planned beside measured memory,
and what max_inference_len saves.

usage: figures.py [--plimsoll build/release/bin/plimsoll] MODEL...
"""
import argparse
import json
import subprocess

MIB = 2**20


def run(command):
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(f"{' '.join(command)}: exit {result.returncode}\n"
                         f"{result.stderr}")
    return json.loads(result.stdout)


def plan(plimsoll, model, *flags):
    return run([plimsoll, "plan", model, "-o", "json", *flags])


def region(p, *names):
    return sum(int(r["bytes"]) for r in p["regions"] if r["name"] in names)


def memory_row(plimsoll, model, n_ctx):
    flags = ["--n-ctx", str(n_ctx)]
    planned = plan(plimsoll, model, *flags)
    report = run([plimsoll, "generate", "--model", model, "--prompt",
                  "The capital of France is", "--raw", "--max-tokens", "16",
                  "--temperature", "0", "-o", "json", *flags])["memory"]
    total = int(planned["total_bytes"])
    rss = int(report["peak_rss_bytes"])
    allowed = 1.05 * rss + 16 * MIB
    print(f"  n_ctx {planned['n_ctx']:>7}"
          f"  arena {int(report['planned_bytes']) / MIB:8.1f} MiB"
          f"  planned - allocated "
          f"{int(report['planned_bytes']) - int(report['allocated_bytes'])} B"
          f"  allocations after load "
          f"{report['device_allocations_after_load']}"
          f"  plan {total / MIB:8.1f} MiB"
          f"  peak RSS {rss / MIB:8.1f} MiB"
          f"  {'ok' if rss <= total <= allowed else 'OUTSIDE'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plimsoll", default="build/release/bin/plimsoll")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()
    for model in args.models:
        print(model.rsplit("/", 1)[-1])
        trained = plan(args.plimsoll, model, "--n-ctx", "max",
                       "--device-memory", "64GiB")["n_ctx"]
        for n_ctx in (512, 4096, trained):
            memory_row(args.plimsoll, model, n_ctx)
        for n_ctx in (512, 4096, trained):
            p = plan(args.plimsoll, model, "--n-ctx", str(n_ctx))
            other = region(p, "workspace", "logits", "candidates", "tables")
            print(f"  n_ctx {n_ctx:>7}  besides weights and KV "
                  f"{other / MIB:.1f} MiB")
        short = plan(args.plimsoll, model, "--max-inference-len", "32")
        long = plan(args.plimsoll, model, "--n-ctx", "4096")
        kv = [region(p, "kv_full", "kv_window") for p in (long, short)]
        print(f"  KV at 4,096: {kv[0]} B, with --max-inference-len 32: "
              f"{kv[1]} B, {kv[0] / kv[1]:.0f} times smaller; plan "
              f"{int(short['total_bytes']) / MIB:.1f} MiB")


if __name__ == "__main__":
    main()
