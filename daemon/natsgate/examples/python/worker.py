# Handles the messages of the topic "order.timeout", eight at a time: each goes to one
# worker, is leased to it while its handler runs, and is gone once acknowledged.
#
#   pip install nats-py
#   python3 worker.py
#
# Start as many as you like. If a worker is killed its messages come again when their
# leases expire. At a SIGTERM it finishes what it has, and ends after at most 10 s.
import asyncio
import json
import os
import signal
import socket

import nats


claim = {"wait": "10s", "worker": f"{socket.gethostname()}-{os.getpid()}"}  # as it stands in lists of workers


async def handle(m):
    print(f"order {m.headers['ce-id']} was not paid: {m.data.decode(errors='replace')}", flush=True)


async def settle(m):
    task = asyncio.create_task(handle(m))
    while not (await asyncio.wait([task], timeout=10))[0]:
        await m.respond(b"+WPI")  # extends the lease, which is 30 s
    # If it failed, again after a backoff.
    await m.respond(b"-NAK " + json.dumps({"reason": repr(err)}).encode() if (err := task.exception()) else b"+ACK")


# A claim waits for 10 s. With old_style it has an inbox of its own, so that bellhop notices
# when nobody waits for the answer any more, and gives the message to another.
async def work(nc, stopping):
    while not stopping.is_set():
        try:
            m = await nc.request("bellhop.claim.order.timeout", json.dumps(claim).encode(), timeout=15, old_style=True)
            if error := m.headers.get("Nats-Service-Error"):
                raise RuntimeError(error)
            if m.headers.get("Status") != "204":
                await settle(m)
        except Exception as err:
            print(f"cannot claim; retrying: {err!r}", flush=True)
            await asyncio.sleep(1)


async def main():
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    async with await nats.connect(os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), max_reconnect_attempts=-1) as nc:
        await asyncio.gather(*(work(nc, stopping) for _ in range(8)))


asyncio.run(main())
