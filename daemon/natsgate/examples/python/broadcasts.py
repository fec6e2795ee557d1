# Prints the broadcasts of the topic "prices".
#
#   pip install nats-py
#   python3 broadcasts.py
#
# Write "prices.>" instead to get those of prices.gold and all below. What is
# broadcast while this is not connected it does not get; a JetStream stream keeps
# it (BELLHOP_NATS_JETSTREAM).
import asyncio
import os
from urllib.parse import unquote

import nats


async def main():
    nc = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), max_reconnect_attempts=-1
    )
    broadcasts = await nc.subscribe("bellhop.broadcast.prices")
    await nc.flush()  # from here on nothing is missed
    print("listening", flush=True)
    async for m in broadcasts.messages:
        print(m.data.decode(), flush=True)
        for name, value in m.headers.items():
            if name.startswith("ce-"):  # attributes of a CloudEvent
                print(f"  {name}: {unquote(value)}", flush=True)


asyncio.run(main())
