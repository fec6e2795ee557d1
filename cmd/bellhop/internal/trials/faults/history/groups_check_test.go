package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// gathered is a group of a and b, for which done waits.
const gathered = `
	0-2 p publish a ok due=10 group=g
	3-4 p publish b ok due=20 group=g
	5-6 p publish done ok after_group=t:g
	30-31 w takes a due=10
	32-33 w takes b due=20
	34-35 w ack a ok receipt=1030
	`

// goes is the same with a callback that does not wait for dead ones.
const goes = `
	0-2 p publish a ok due=10 group=g
	3-4 p publish b ok due=20 group=g
	5-6 p publish done ok after_group=t:g go=true
	30-31 w takes a due=10
	32-33 w takes b due=20
	34-35 w ack a ok receipt=1030
	`

const comes = `
	80-81 w takes done due=80
	82-83 w ack done ok receipt=1080
	`

// Wrong histories of groups, by the rule that they break.
var wrongGroups = map[history.Rule]map[string]string{
	history.GroupEarly: {
		"before an acknowledgement": gathered + comes + `
			90-91 w ack b ok receipt=1032`,
		"before another handout": gathered + comes + `
			40-41 w nack b ok receipt=1032 due=90 state=scheduled
			95-96 w takes b due=90 attempt=2
			97-98 w ack b ok receipt=1095`,
		"of one that nobody handled": gathered + comes + `
			40-41 w nack b ok receipt=1032 due=90 state=scheduled
			final scheduled b 90
			final attempts b`,
		"of one that is dead": gathered + comes + `
			40-41 w bury b ok receipt=1032 state=dead
			final dead b 40`,
		"of one that was requeued": gathered + comes + `
			40-41 w bury b ok receipt=1032 state=dead
			90-91 w requeue b ok
			95-96 w takes b due=90
			97-98 w ack b ok receipt=1095`,
		"of one that lives, and dead ones would not count": goes + comes + `
			90-91 w ack b ok receipt=1032`,
		"of a callback": gathered + `
			7-8 p publish last ok after_group=t:h
			9-10 p publish done2 ok after_group=t:none group=h
			36-37 w ack b ok receipt=1032` + comes + `
			40-41 w takes last due=40
			42-43 w ack last ok receipt=1040
			50-51 w takes done2 due=50
			52-53 w ack done2 ok receipt=1050`,
	},
	history.GroupMissing: {
		"all were acknowledged": gathered + `
			36-37 w ack b ok receipt=1032
			400 h drained
			final scheduled done 9000`,
		"it does not wait for dead ones": goes + `
			36-37 w bury b ok receipt=1032 state=dead
			400 h drained
			final dead b 36
			final scheduled done 9000`,
		"of an empty group": `
			0-2 p publish done ok after_group=t:g
			400 h drained
			final scheduled done 9000`,
	},
	history.TwoCallbacks: {
		"another one waits": gathered + `
			7-8 q publish other ok after_group=t:g
			36-37 w ack b ok receipt=1032` + comes + `
			84-85 w takes other due=80
			86-87 w ack other ok receipt=1084`,
		"another one behind its end": gathered + `
			36-37 w ack b ok receipt=1032` + comes + `
			90-91 q publish other ok after_group=t:g
			94-95 w takes other due=90
			96-97 w ack other ok receipt=1094`,
	},
}

// Histories that break no rule.
var rightGroups = map[string]string{
	"behind all": gathered + `
		36-37 w ack b ok receipt=1032` + comes,
	"behind one that may be acknowledged": gathered + `
		36-90 w ack b unknown receipt=1032` + comes,
	"one that was perhaps never published": `
		0-2 p publish a unknown due=10 group=g
		5-6 p publish done ok after_group=t:g` + comes + `
		90-91 w takes a due=10
		92-93 w ack a ok receipt=1090`,
	"one that came too late": `
		0-2 p publish done ok after_group=t:g` + comes + `
		90-91 p publish a no group=g`,
	"a callback that was given a time": gathered + `
		7-8 p reschedule done ok due=60` + comes + `
		90-91 w ack b ok receipt=1032`,
	"a callback that was given a later time": gathered + `
		7-8 p reschedule done ok due=600
		36-37 w ack b ok receipt=1032` + comes,
	"a dead one that is held": gathered + `
		36-37 w bury b ok receipt=1032 state=dead
		400 h drained
		final dead b 36
		final scheduled done 9000`,
	"a dead one that does not count": goes + `
		36-37 w bury b ok receipt=1032 state=dead` + comes + `
		final dead b 36`,
	"a dead one that did not count, and was requeued": goes + `
		36-37 w bury b ok receipt=1032 state=dead` + comes + `
		90-91 w requeue b ok
		95-96 w takes b due=90
		97-98 w ack b ok receipt=1095`,
	"what Redis forgot": gathered + `
		36-37 w ack b ok receipt=1032
		40-60 fault power loss=1000` + comes + `
		1100-1101 w takes b due=20 attempt=2
		1102-1103 w ack b ok receipt=2100`,
	"another callback behind a cancelled one": gathered + `
		7-8 p cancel done ok
		9-10 q publish other ok after_group=t:g
		36-37 w ack b ok receipt=1032
		84-85 w takes other due=80
		86-87 w ack other ok receipt=1084`,
	"another callback that was refused": gathered + `
		7-8 q publish other no after_group=t:g
		36-37 w ack b ok receipt=1032` + comes,
	"two at once, of which one is not known": gathered + `
		7-8 q publish other unknown after_group=t:g
		36-37 w ack b ok receipt=1032` + comes,
}

func TestGroups(t *testing.T) { expectEach(t, wrongGroups, rightGroups, bounds) }
