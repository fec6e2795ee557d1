package notify_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// What is due now keeps its seat, also where it waits behind another message that is overdue.
func TestSeatBehindAnother(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish 1..3 key=k
	publish other delay=1ms
	pass 2ms                     # nobody carries
== rescheduled
	reschedule 1 delay=0s = ready
	is 1=scheduled 2=blocked 3=blocked
== replaced
	publish 1 key=k if_busy=drop if_exists=replace = replaced:scheduled
	is 1=scheduled 2=blocked 3=blocked
==
	carry
	is 1=ready 2=blocked 3=blocked other=ready
	`)
}

// A message that stays in its place has no seat of the first key that it gets there: then it takes one, or is blocked.
func TestFirstKeyOfADebounced(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
	publish a
	pass 2ms
	publish a key=k if_exists=debounce delay=1ms max_wait=1ms = moved:ready
	publish b key=k = blocked
	is a=ready b=blocked
	`)
}
