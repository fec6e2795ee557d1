# Handles the messages of the topic "mail" that the daemon pushes to NATS after:
# bellhop push put mail --topic mail --to nats:jobs.mail
#
#   pip install nats-py
#   python3 deliver.py
#
# Start as many as you like: each message goes to one of the queue group. The
# messages wait while none runs.
import asyncio
import os
import traceback

import nats


class Later(Exception):
    """What a handler raises to look at a message again later, which uses up no attempt."""


async def handle(m):
    if m.data == b"pending":
        raise Later("1s")
    print(f"mail {m.headers['ce-id']}, attempt {m.headers['Bellhop-Attempt']}: {m.data.decode(errors='replace')}", flush=True)


async def answer(m):
    try:
        await handle(m)  # if this takes longer than 30 s, call m.respond(b"+WPI") now and then
        await m.respond(b"+ACK")
    except Later as later:
        await m.respond(b'-NAK {"delay":"%s","attempt":"keep"}' % str(later).encode())
    except Exception:
        traceback.print_exc()
        await m.respond(b'-NAK {"delay":"5s"}')  # again after 5 s; +TERM: never again


async def main():
    nc = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), max_reconnect_attempts=-1
    )
    deliveries = await nc.subscribe("jobs.mail", queue="workers")
    await nc.flush()
    print("waiting", flush=True)

    # Up to 32 messages come before the first is answered, so the loop does not
    # wait for each.
    answering = set()
    async for m in deliveries.messages:
        task = asyncio.create_task(answer(m))
        answering.add(task)
        task.add_done_callback(answering.discard)


asyncio.run(main())
