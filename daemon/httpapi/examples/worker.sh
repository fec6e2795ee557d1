#!/bin/sh
# Handles the messages of the topic "order.timeout", one after the other: each
# goes to one worker, is leased to it for 30s, and is gone once acknowledged.
#
#   ./worker.sh
#
# It needs curl only, 7.84 or newer. Start as many as you like.
topic=${BELLHOP_URL:-http://127.0.0.1:8420}/v1/topics/order.timeout
body=$(mktemp) || exit
trap 'rm -f "$body"' EXIT
trap 'exit 1' HUP INT TERM

# Handles the message of an id, whose body is standard input, byte for byte.
handle() { printf 'order %s was not paid: ' "$1" && cat && echo; }

call() { curl -sS --fail-with-body -X POST "$@"; }

echo waiting
while :; do
  : >"$body" # curl does not empty the file if no body comes
  # The call waits until there is a message, for at most 1m. Its other fields are in
  # the headers: -D FILE keeps them.
  if ! known=$(call -o "$body" -w '%header{bellhop-id} %header{bellhop-receipt}' "$topic/claim?as=body&wait=1m"); then
    cat "$body" >&2
    sleep 1
    continue
  fi
  set -- $known # an id has no spaces
  test $# = 2 || continue
  if handle "$1" <"$body"; then settle=ack; else settle=nack; fi # delivered again after a backoff
  call "$topic/messages/$1/$settle?receipt=$2"
done
