# Answers the messages of the topic "mail", which the daemon delivers when it
# runs with BELLHOP_NATS_DELIVER=mail, or as: bellhop dev --deliver mail
#
#   pip install nats-py
#   python3 deliver.py
#
# Start as many as you like: each message goes to one of the queue group. While
# none runs the messages wait.
import asyncio
import os
import traceback

import nats


async def handle(m):
    print(f"mail {m.headers['ce-id']}, attempt {m.headers['Bellhop-Attempt']}: {m.data.decode()}", flush=True)


async def answer(m):
    try:
        await handle(m)  # if this takes longer than the lease, call m.respond(b"+WPI") now and then
        await m.respond(b"+ACK")
    except Exception:
        traceback.print_exc()
        await m.respond(b'-NAK {"delay":"5s"}')  # again after 5 s; +TERM: never again


async def main():
    nc = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), max_reconnect_attempts=-1
    )
    deliveries = await nc.subscribe("bellhop.deliver.mail", queue="workers")
    await nc.flush()
    print("waiting", flush=True)

    # The next ones come before the first is answered, up to 64 at a time, so
    # this does not wait for each.
    answering = set()
    async for m in deliveries.messages:
        task = asyncio.create_task(answer(m))
        answering.add(task)
        task.add_done_callback(answering.discard)


asyncio.run(main())
