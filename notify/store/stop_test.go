package store_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// A leased message that is to be cancelled stays leased, and its worker's, until the lease ends: then it is gone, with what follows it, unless
// it is acknowledged. The next one of its key, and of the topic's limit, goes then and not before.
func TestStop(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	set concurrency=1
	publish b key=k ttl=1h unique_for=1h
	claim 2 = b
	publish a key=k = blocked
	publish b key=k body=next then=after = leased
	claim 1 inbox=desk-1 = nothing
	stop b
	has b state=leased stop=now
	stop b
	claim 1 inbox=desk-1 = nothing
	rung = nobody
== released
	release b
	is b=none
== rejected
	nack b delay=0s = cancelled
	is b=none
== put off
	defer b delay=0s = cancelled
	is b=none
== buried
	bury b delay=0s = cancelled
	is b=none
== lease over
	lapse b
	carry
	is b=none
== acknowledged
	ack b
	is b=blocked                 # what follows it
== acknowledged with a result
	ack b keep=0s
	is b=blocked
==
	rung = desk-1
	claim 1 inbox=desk-1 = a
	ack b = lost
	redis EXISTS extras = 0
	redis EXISTS expiries = 0
	redis EXISTS attempts = 0
	redis HGET topics mail:leased = 1
	slots 1
	`, limited)
}

// What is to be cancelled is not followed by what is published after that was asked for: that is refused, whatever follows already, and can
// be published once the lease has ended.
func TestStoppedIsNotFollowed(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a b
	claim 2 = a b
	publish b body=before then=after = leased
	stop a
	publish a then=after = refused:leased
	publish a then=after if_exists=keep = ~to be cancelled
	publish a then=after if_exists=replace = ~to be cancelled
	publish a then=after if_exists=debounce delay=1h = ~to be cancelled
	stop b
	publish b then=after = refused:leased
	publish b then=after if_exists=keep = ~to be cancelled
	publish b then=after if_exists=replace = ~to be cancelled
	publish b then=after if_exists=debounce delay=1h = ~to be cancelled
== released
	release a
== rejected
	nack a delay=0s = cancelled
== put off
	defer a delay=0s = cancelled
== buried
	bury a = cancelled
== lease over
	lapse a
	carry
== acknowledged
	ack a
== acknowledged with a result
	ack a keep=0s
==
	publish a then=after = ready
	ack b
	has b state=ready body=before
	`, limited)
}

// An extension says that the message is to be cancelled, and leaves its lease as it is; those beside it are extended.
func TestExtensionOfStopped(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish 0..2
	claim 3 = 0 1 2
	note 1
	stop 1
	extend 1 by=claim lease=2h progress=9 = stopped
	extend 0..2 lease=2h = stopped 1
	has 1 until=noted
	has 0 until=now+2h
	has 2 until=now+2h
	release 0..2
	is 0=ready 1=none 2=ready
	`, limited)
}

// A message that no worker has is cancelled at once, as without a stop; and where what is noted beside messages is foreign, nothing changes.
func TestStopOfWhatIsNotLeased(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish 0 1
	stop 0 = ready
	stop 0 = none
	claim 1 = 1
	redis SET extras foreign
	stop 1 = ~foreign
	extend 1
	lapse 1
	carry
	is 1=ready
	`, limited)
}

// Whoever awaits a message that is cancelled so is told.
func TestStopIsAwaited(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, limited)
	p.Play(`
	publish 0
	claim 1 = 0
	`)
	ended := make(chan error, 1)
	go func() {
		_, err := p.Inspector.Await(t.Context(), p.Topic, "0")
		ended <- err
	}()
	storetest.Awaited(t, p.Store, p.Topic, "0")
	p.Play(`
	stop 0
	release 0
	`)
	storetest.Fails(t, "it ended as", storetest.Receive(t, "the end of the message", ended), notify.ErrGone)
}
