# Handles the messages of the topic "order.timeout": the worker is woken, claims, and
# acknowledges. Each message goes to one worker.
#
#   pip install nats-py
#   python3 worker.py
#
# Start as many as you like. A message whose worker is killed comes again when its
# lease expires, after 30s.
import asyncio
import os
import traceback

import nats

TOPIC = "order.timeout"
CONCURRENCY = 8  # how many messages are handled at the same time

wakeups = asyncio.Queue(CONCURRENCY)  # each wakes one task
failed = asyncio.Event()  # the last claim failed


class Later(Exception):
    """What a handler raises to look at a message again later, which uses up no attempt."""


async def handle(m):
    if m.data == b"pending":
        raise Later("1s")
    if m.headers.get("Bellhop-Late"):
        print("this comes later than its sender allows:", flush=True)  # late_after
    print(f"order {m.headers['ce-id']} was not paid: {m.data.decode()}", flush=True)


def wake(n=1):
    """Wakes a task for each of n messages; a busy one claims again when it is done."""
    for _ in range(min(n, CONCURRENCY - wakeups.qsize())):
        wakeups.put_nowait("wake")


async def claim(nc):
    """Claims one message; None: there is none."""
    if not nc.is_connected:  # or the client would send the request later, when nobody waits for the reply
        raise ConnectionError("not connected")
    m = await nc.request(f"bellhop.claim.{TOPIC}", timeout=5)
    if "Nats-Service-Error" in m.headers:
        raise RuntimeError(m.headers["Nats-Service-Error"])
    return None if m.headers.get("Status") == "204" else m


async def settle(m):
    try:
        await handle(m)  # if this takes longer than the lease, call m.respond(b"+WPI") now and then
        await m.respond(b"+ACK")
    except Later as later:
        await m.respond(b'-NAK {"delay":"%s","attempt":"keep"}' % str(later).encode())
    except Exception:
        traceback.print_exc()
        await m.respond(b"-NAK")  # again after a backoff; +TERM: never again


async def work(nc):
    """One task: when woken, it claims and handles messages until none is left."""
    while True:
        await wakeups.get()
        try:
            while m := await claim(nc):
                await settle(m)
            failed.clear()
        except Exception as err:
            print(f"cannot claim; retrying: {err!r}", flush=True)
            failed.set()


async def main():
    async def reconnected():
        wake()

    nc = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"),
        max_reconnect_attempts=-1,
        reconnected_cb=reconnected,
    )
    wakes = await nc.subscribe(f"bellhop.wake.{TOPIC}", queue="workers")  # wakes one of the group
    beats = await nc.subscribe("bellhop.beat")
    await nc.flush()
    print("waiting", flush=True)

    async def woken():
        async for m in wakes.messages:
            wake(int(m.data))

    async def watch():
        while True:
            try:
                await beats.next_msg(timeout=3)
                if failed.is_set():
                    wake()
            except nats.errors.TimeoutError:
                wake()

    # A wake-up can get lost. So the worker also claims at the start, after each
    # reconnect, and when it has received no beat for three seconds.
    wake()
    await asyncio.gather(woken(), watch(), *(work(nc) for _ in range(CONCURRENCY)))


asyncio.run(main())
