"""A worker of a round with the package for Python: it has a handler at each daemon, and writes a history, as package history describes."""

import itertools
import json
import os
import random
import sys
import time

from bellhop_client import Bellhop, Bury, Later, _epoch

topic, lease, file = sys.argv[1:]
history = os.open(file, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
numbers = itertools.count(1)


def note(n, phase, m, **more):
    record = {"at": time.time_ns() // 1000, "process": os.environ["FAULTS_PROCESS"], "n": n, "op": "handle", "phase": phase, "topic": m.topic, "id": m.id}
    os.write(history, f"{json.dumps(record | more)}\n".encode())  # lines of several threads do not mix


def handle(m):
    n = next(numbers)
    note(n, "call", m, due=round(_epoch(m.due) * 1000), attempt=m.attempt, receipt=m.receipt, lease=1000, handed=True)  # perhaps
    roll = random.randrange(100)
    if m.stopped.wait(random.uniform(1, 1.3) if roll < 3 else random.uniform(0, 0.008)):  # some take longer than the lease
        note(n, "unknown", m)
        raise RuntimeError("stopped")
    note(n, "no" if 4 <= roll < 10 else "ok", m)
    if roll == 4:
        raise Bury("never")
    if roll in (5, 6):
        raise Later("70ms")
    if 6 < roll < 10:
        raise RuntimeError("not this time")


def on_error(err, m):
    print(f"{m.id if m else 'claim'}: {err}", file=sys.stderr, flush=True)


def work(url):
    return Bellhop(url).work(topic, handle, concurrency=4, lease=lease, on_error=on_error)


first, second = map(work, os.environ["FAULTS_HTTP"].split(","))
with first, second:
    print("faults: ready", flush=True)
    first.until_signal()
