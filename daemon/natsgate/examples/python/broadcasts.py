# Prints the broadcasts of the topic "prices".
#
#   pip install nats-py
#   python3 broadcasts.py
#
# Write "prices.>" instead to get the broadcasts of prices.gold and all topics below. The
# program misses broadcasts that are sent while it is not connected; a JetStream stream
# keeps them (BELLHOP_NATS_JETSTREAM).
import asyncio
import os
from urllib.parse import unquote

import nats


async def main():
    nc = await nats.connect(
        os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), max_reconnect_attempts=-1
    )
    broadcasts = await nc.subscribe("bellhop.broadcast.prices")
    await nc.flush()  # no broadcast is missed from here on
    print("listening", flush=True)
    async for m in broadcasts.messages:
        print(m.data.decode(errors="replace"), flush=True)
        for name, value in m.headers.items():
            if name.startswith("ce-"):  # attributes of a CloudEvent
                print(f"  {name}: {unquote(value)}", flush=True)


asyncio.run(main())
