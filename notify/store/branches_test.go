package store_test

import (
	"testing"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// The carrier copies what is ready of a topic into each of its branches, in the order of their due times, and acknowledges it; nobody else claims of it.
func TestBranches(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
		set branches=mail,points

		== due later
		publish a b delay=1h
		carry
		is a=scheduled b=scheduled
		is topic=orders@mail a=none
		hasten 2h
		rung = nobody
		wait desk-1 topic=orders@mail
		wait desk-2
		carry
		rung = desk-1
		is a=none b=none
		claim 5 topic=orders@mail = a b
		claim 5 topic=orders@points = a b
		ack a b topic=orders@mail
		nack b topic=orders@points delay=1h
		ack a topic=orders@points
		is topic=orders@points a=none b=scheduled
		counts published=2 acked=2 waiting=1
		counts topic=orders@mail published=2 acked=2 waiting=1

		== due at once
		publish a
		claim 5 = nothing
		carry
		claim 5 = nothing
		claim 5 topic=orders@mail = a
		is topic=orders@points a=ready

		== a branch is added, and one is removed
		publish a delay=1h
		set branches=+crm
		set branches=+crm
		set branches=-mail
		hasten 2h
		carry
		is topic=orders@mail a=none
		claim 5 topic=orders@crm = a
		claim 5 topic=orders@points = a

		== the last branch is removed
		publish a
		set branches=-mail
		set branches=-points
		claim 5 = a
		carry
		is a=leased
		is topic=orders@mail a=none

		== what plain workers have is theirs
		set branches=default
		publish a b
		claim 1 = a
		set branches=mail
		carry
		is topic=orders@mail a=none b=ready
		nack a delay=1ms
		pass 2ms
		carry
		is a=none
		claim 5 topic=orders@mail = b a

		== paused
		pause
		publish a
		carry
		is a=ready
		is topic=orders@mail a=none
		resume
		carry
		is topic=orders@mail a=ready
		is a=none

		== a branch is paused
		pause topic=orders@mail
		publish a
		carry
		claim 1 topic=orders@mail = nothing
		claim 1 topic=orders@points = a

		== an id that a copy has
		publish a body=1
		carry
		publish a body=2
		carry
		publish a body=3
		carry
		list ready topic=orders@mail = ~a~
		counts topic=orders@mail ready=3 published=3
		claim 1 topic=orders@mail = a
		ack a topic=orders@mail
		publish a body=4
		carry
		is topic=orders@mail a=ready

		== expired, and late
		publish a b ttl=1h
		publish c late_after=1ms late=drop due=past
		expire a
		pass 2ms
		carry = dead:a dropped:c
		is topic=orders@mail a=none b=ready c=none
		is a=dead
		requeue a
		carry
		is topic=orders@mail a=ready
		expire b topic=orders@mail
		claim 1 topic=orders@mail = dead:b

		== a time to live of copies
		set branch_ttl=1h
		publish a ttl=2h
		publish b ttl=30m
		publish c
		carry
		has a topic=orders@mail expires=due+1h
		has b topic=orders@mail expires=due+30m
		has c topic=orders@mail expires=due+1h

		== keys
		publish a b key=k
		publish c key=k if_busy=drop
		publish d
		is a=ready b=ready c=ready
		carry
		is topic=orders@mail a=ready b=blocked c=none d=ready
		claim 5 topic=orders@mail = d a
		ack a topic=orders@mail
		is topic=orders@mail b=ready
		is topic=orders@points a=ready b=blocked

		== keys from before
		set branches=default
		publish a b c key=k
		is a=ready b=blocked c=blocked
		set branches=mail
		carry
		carry
		is topic=orders@mail a=ready b=blocked c=blocked
		is a=none b=none c=none

		== keys from before, in the order in which they are due
		set branches=default
		publish c key=k
		pass 2ms
		publish b key=k
		pass 2ms
		publish a key=k
		pass 2ms
		publish 0 key=k
		claim 1 = c
		ack c
		is b=ready a=blocked 0=blocked
		set branches=mail
		carry
		claim 5 topic=orders@mail = b
		ack b topic=orders@mail
		claim 5 topic=orders@mail = a
		ack a topic=orders@mail
		claim 5 topic=orders@mail = 0

		== a successor, and an id that is kept
		set branches=default
		publish a unique_for=1h
		claim 1 = a
		publish a then=after body=2 = leased
		set branches=mail
		release a
		carry
		claim 5 topic=orders@mail = a
	`)
}

// A change of branches that cannot be says why, and changes nothing.
func TestBranchesAreRefused(t *testing.T) {
	t.Parallel()
	storetest.Play(t, `
		== of a branch
		set topic=orders@mail branches=eu = ~branches: orders@mail is a branch itself; set them on orders
		set topic=orders@mail branch_ttl=1h = ~branches: orders@mail is a branch itself; set them on orders

		== names
		set branches=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16
		set branches=+17 = ~branches: there would be 17; a topic has at most 16
		set branches=+16

		== limits
		set concurrency=2 branches=mail = ~branches: orders would have a concurrency or a rate beside them; set those on each branch, such as orders@NAME
		set branches=mail
		set rate=1/s = ~set those on each branch
		set topic=orders@mail rate=1/s

		== keys
		set branches=mail
		pause
		publish a b key=k
		set branches=default = ~branches: orders has ready messages with keys among 2 that are not copied yet; resume it if it is paused, and try again
		resume
		carry
		set branches=default
	`)
}
