# Handles the messages of the topic "order.timeout", each of which goes to one
# worker: it is woken, claims, and acknowledges.
#
#   pip install nats-py
#   python3 worker.py
#
# Start as many as you like. What one has in hand when it is killed comes again
# when its lease ends, after 30s.
import asyncio
import os
import traceback

import nats

TOPIC = "order.timeout"
HANDS = 8  # so many messages are handled at the same time

bells = asyncio.Queue(HANDS)  # each sends one hand to work
failed = asyncio.Event()  # the last claim did


async def handle(m):
    print(f"order {m.headers['ce-id']} was not paid: {m.data.decode()}", flush=True)


def ring(n=1):
    """The bell rings for n messages: as many hands go to work, or go on when they are done."""
    for _ in range(min(n, HANDS - bells.qsize())):
        bells.put_nowait("ring")


async def claim(nc):
    """Claims one message: the reply, unless that says that there is none."""
    if not nc.is_connected:  # else it would be sent later, when nobody waits for the reply
        raise ConnectionError("not connected")
    m = await nc.request(f"bellhop.claim.{TOPIC}", timeout=5)
    if "Nats-Service-Error" in m.headers:
        raise RuntimeError(m.headers["Nats-Service-Error"])
    return None if m.headers.get("Status") == "204" else m


async def settle(m):
    try:
        await handle(m)  # if this takes longer than the lease, call m.respond(b"+WPI") now and then
        await m.respond(b"+ACK")
    except Exception:
        traceback.print_exc()
        await m.respond(b"-NAK")  # again after a backoff; +TERM: never again


async def work(nc):
    """One hand: when the bell rings it works until nothing is left."""
    while True:
        await bells.get()
        try:
            while m := await claim(nc):
                await settle(m)
            failed.clear()
        except Exception as err:
            print(f"cannot claim, trying again: {err!r}", flush=True)
            failed.set()


async def main():
    async def reconnected():
        ring()

    nc = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"),
        max_reconnect_attempts=-1,
        reconnected_cb=reconnected,
    )
    wakes = await nc.subscribe(f"bellhop.wake.{TOPIC}", queue="workers")  # of the group one is woken
    beats = await nc.subscribe("bellhop.beat")
    await nc.flush()
    print("waiting", flush=True)

    async def woken():
        async for m in wakes.messages:
            ring(int(m.data))

    async def watch():
        while True:
            try:
                await beats.next_msg(timeout=3)
                if failed.is_set():
                    ring()
            except nats.errors.TimeoutError:
                ring()

    # A wake-up can get lost. So claim at the start, too, whenever no beat was
    # heard for three seconds, and after a new connection.
    ring()
    await asyncio.gather(woken(), watch(), *(work(nc) for _ in range(HANDS)))


asyncio.run(main())
