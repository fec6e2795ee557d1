#!/bin/sh
# Handles the messages of the topic "order.timeout", one after the other: each
# goes to one worker, is leased to it for 30s, and is gone once acknowledged.
#
#   ./worker.sh
#
# It needs curl only. Start as many as you like.
url=${BELLHOP_URL:-http://127.0.0.1:8420}
topic=order.timeout

# Takes a text or a number of the answer, which is one message in JSON.
field() { printf %s "$answer" | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"; }

echo waiting
while :; do
  # The call is held open until there is a message, for 1m at the most.
  if ! answer=$(curl -sS --fail-with-body -X POST "$url/v1/topics/$topic/claim?wait=1m"); then
    sleep 1
    continue
  fi
  id=$(field id)
  receipt=$(field receipt)
  test -n "$id" || continue

  echo "order $id was not paid: $(field body)"

  curl -sS --fail-with-body -X POST "$url/v1/topics/$topic/messages/$id/ack?receipt=$receipt"
done
