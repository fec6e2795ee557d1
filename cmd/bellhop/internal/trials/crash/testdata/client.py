"""A worker or a publisher of TestKillWithClients. It prints a line as a handler begins and ends, or when a message is published: with
unique_for, since its message may be handled before a publish without an answer is repeated."""

import itertools
import os
import random
import signal
import sys
import threading
import time

from bellhop_client import Bellhop

role, topic, lease = sys.argv[1:]
bell = Bellhop()


def say(line):
    os.write(1, f"{line}\n".encode())  # lines of several threads do not mix


def handle(m):
    say(f"began {m.id} {m.attempt} {m.receipt} {m.due}")
    time.sleep(random.uniform(0, 0.02))
    say(f"ended {m.id}")


def publish():
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    for n in itertools.count():
        if stopped.is_set():
            return
        id = f"python-{os.getpid()}-{n}"
        bell.publish(topic, {"n": n}, id=id, delay=f"{n % 2}00ms", unique_for="1m")
        say(f"published {id}")
        stopped.wait(0.005)


if role == "worker":
    with bell.work(topic, handle, concurrency=16, lease=lease) as worker:
        worker.until_signal()
else:
    publish()
