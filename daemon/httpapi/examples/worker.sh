#!/bin/sh
# Handles the messages of the topic "order.timeout", one after the other: each goes to
# one worker, is leased to it while its handler runs, and is gone once acknowledged.
#
#   ./worker.sh
#
# It needs curl only, 7.84 or newer. Start as many as you like.
topic=${BELLHOP_URL:-http://127.0.0.1:8420}/v1/topics/order.timeout
worker=$(uname -n)-$$ # as it stands in lists of workers, and with what it failed
lease=${LEASE:-30} # seconds: so long after its worker died, a message comes again
body=$(mktemp) || exit
trap 'rm -f "$body"' EXIT
trap 'stopping=1' HUP INT TERM # it finishes what it has
stopping=

# Handles the message of an id, whose body is standard input, byte for byte. The status 75
# puts it off.
handle() {
  if printf pending | cmp -s - "$body"; then return 75; fi # the bank has not answered yet
  printf 'order %s was not paid: ' "$1" && cat && echo
}

call() { curl -sS --fail-with-body -X POST "$@"; }

echo waiting
while [ -z "$stopping" ]; do
  : >"$body" # curl does not empty the file if no body comes
  # The call waits until there is a message, for at most 1m. Its other fields are in
  # the headers: -D FILE keeps them.
  if ! known=$(call -o "$body" -w '%header{bellhop-id} %header{bellhop-receipt}' "$topic/claim?as=body&wait=1m&lease=${lease}s&worker=$worker"); then
    cat "$body" >&2
    sleep 1
    continue
  fi
  set -- $known # an id has no spaces
  test $# -ge 2 || continue
  # The handler may take longer than the lease. Extending it does not change the receipt.
  while sleep $((lease / 3)) && kill -0 $$; do call "$topic/messages/$1/extend?receipt=$2&lease=${lease}s"; done >/dev/null 2>&1 &
  heartbeat=$!
  handle "$1" <"$body"
  status=$?
  kill $heartbeat
  case $status in
  0) settle="ack?" ;;
  75) settle="nack?attempt=keep&delay=1s&" ;; # again after 1 s, and no attempt is used up
  *) settle="nack?reason=exit+$status&" ;;    # again after a backoff
  esac
  call "$topic/messages/$1/${settle}receipt=$2"
done
