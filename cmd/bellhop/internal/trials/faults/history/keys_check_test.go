package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// Wrong histories of messages with a key, by the rule that they break.
var wrongKeys = map[history.Rule]map[string]string{
	history.Seat: {
		"two at once": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 w takes a due=50
			72-73 x takes b due=60
			74-75 w ack a ok receipt=1070
			76-77 x ack b ok receipt=1072`,
		"two in one millisecond": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-72 w takes a at=70 due=50
			70-71 x takes b at=70 due=60
			74-75 w ack a ok receipt=1070
			76-77 x ack b ok receipt=1070`,
		"between two attempts": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 w takes a due=50
			72-73 w nack a ok receipt=1070 due=90 state=scheduled
			74-75 x takes b due=60
			76-77 x ack b ok receipt=1074
			95-96 w takes a due=90 attempt=2
			97-98 w ack a ok receipt=1095`,
		"released": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 w takes a due=50
			72-73 w release a ok receipt=1070
			74-75 x takes b due=60
			76-77 x ack b ok receipt=1074
			95-96 w takes a due=50
			97-98 w ack a ok receipt=1095`,
		"after its lease ended": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 w takes a due=50
			1090-1091 x takes b due=60
			1092-1093 x ack b ok receipt=2090
			1094-1095 w takes a due=1070 attempt=2
			1096-1097 w ack a ok receipt=2094`,
		"to be expired, but not yet": `
			0-2 p publish a ok key=k due=50 ttl=100
			3-4 p publish b ok key=k due=60
			70-71 w takes a due=50
			72-73 x takes b due=60
			74-75 w ack a ok receipt=1070
			76-77 x ack b ok receipt=1072`,
		"acknowledged in vain": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 w takes a due=50
			72-73 w ack a no receipt=1070
			74-75 x takes b due=60
			76-77 x ack b ok receipt=1074
			78-79 w ack a ok receipt=1070`,
	},
	history.KeyOrder: {
		"the later one first": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 x takes b due=60
			72-73 x ack b ok receipt=1070
			74-75 w takes a due=50
			76-77 w ack a ok receipt=1074`,
		"due in one millisecond": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=50
			70-71 x takes b due=50
			72-73 x ack b ok receipt=1070
			74-75 w takes a due=50
			76-77 w ack a ok receipt=1074`,
		"never": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 x takes b due=60
			72-73 x ack b ok receipt=1070
			final dead a 50`,
	},
	history.Lost: {
		"not to be dropped": `
			0-2 p publish a ok key=k due=50
			70-71 w takes a due=50
			72-73 p publish b ok key=k due=72
			74-75 w ack a ok receipt=1070`,
	},
	history.Late: {
		"the seat had been free for long": `
			0-2 p publish a ok key=k due=50
			3-4 p publish b ok key=k due=60
			70-71 w takes a due=50
			72-73 w ack a ok receipt=1070
			800-801 x takes b due=60
			802-803 x ack b ok receipt=1800`,
	},
	history.Orphan: {
		"in two places": `
			0-2 p publish a ok key=k due=50
			final blocked a 50
			final ready a 50`,
	},
}

// Histories that break no rule.
var rightKeys = map[string]string{
	"one after the other": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		72-73 w ack a ok receipt=1070
		74-75 x takes b due=60
		76-77 x ack b ok receipt=1074`,
	"long after it was due, behind another one": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		870-871 w ack a ok receipt=1070
		874-875 x takes b due=60
		876-877 x ack b ok receipt=1874`,
	"of other keys, of another topic, and without one": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=l due=60
		3-4 q publish c ok due=60
		3-4 r publish d ok key=k due=60 topic=u
		70-71 w takes a due=50
		72-73 x takes b due=60
		72-73 y takes c due=60
		72-73 z takes d due=60 topic=u
		74-75 w ack a ok receipt=1070
		74-75 x ack b ok receipt=1072
		74-75 y ack c ok receipt=1072
		74-75 z ack d ok receipt=1072 topic=u`,
	"dropped, since the key was busy": `
		0-2 p publish a ok key=k due=50
		3-4 p publish c ok key=k due=60 busy=true
		70-71 w takes a due=50
		72-73 p publish b ok key=k busy=true outcome=dropped
		74-75 w ack a ok receipt=1070`,
	"it may have been acknowledged": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		72-? w ack a receipt=1070
		74-75 x takes b due=60
		76-77 x ack b ok receipt=1074`,
	"it died": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		72-73 w nack a ok receipt=1070 state=dead
		74-75 x takes b due=60
		76-77 x ack b ok receipt=1074
		final dead a 73`,
	"its last lease ended": `
		0-2 p publish a ok key=k due=50 limit=1
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		1074-1075 x takes b due=60
		1076-1077 x ack b ok receipt=2074
		final dead a 1070`,
	"it was rescheduled": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		72-73 w release a ok receipt=1070
		74-75 p reschedule a ok due=500
		76-77 x takes b due=60
		78-79 x ack b ok receipt=1076
		502-503 w takes a due=500
		504-505 w ack a ok receipt=1502`,
	"it expired": `
		0-2 p publish a ok key=k due=50 ttl=30
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		72-73 w nack a ok receipt=1070 due=90 state=scheduled
		91-92 x takes b due=60
		93-94 x ack b ok receipt=1091
		final dead a 90`,
	"it expired earlier, since it was rescheduled": `
		0-2 p publish a ok key=k due=80 ttl=30
		3-4 p publish b ok key=k due=85
		5-6 p reschedule a ok due=50
		70-71 w takes a due=50
		72-73 w nack a ok receipt=1070 due=100 state=scheduled
		91-92 x takes b due=85
		93-94 x ack b ok receipt=1091
		final dead a 80`,
	"published later": `
		0-10 p publish a ok key=k due=50
		3-4 q publish b ok key=k due=60
		70-71 x takes b due=60
		72-73 x ack b ok receipt=1070
		74-75 w takes a due=50
		76-77 w ack a ok receipt=1074`,
	"cancelled": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		52-53 p cancel a ok
		70-71 x takes b due=60
		72-73 x ack b ok receipt=1070`,
	"a call stopped in the middle": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		40-80 fault rights halfway=true
		70-71 x takes b due=60
		72-73 x ack b ok receipt=1070
		74-75 w takes a due=50
		76-77 w ack a ok receipt=1074`,
	"the seat was forgotten": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		72-73 fault power loss=10
		74-75 x takes b due=60
		76-77 x ack b ok receipt=1074
		78-79 w takes a due=50
		80-81 w ack a ok receipt=1078`,
	"all in one millisecond": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-70 w takes a at=70 due=50
		70-71 w ack a ok receipt=1070
		70-71 x takes b at=70 due=60
		76-77 x ack b ok receipt=1070`,
	"claimed long before that is recorded": `
		0-2 p publish a ok key=k due=50 limit=1
		3-4 p publish b ok key=k due=60
		70-1500 w takes a at=70 due=50
		1074-1075 x takes b due=60
		1076-1077 x ack b ok receipt=2074
		final dead a 1070`,
	"blocked at the end": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		70-71 w takes a due=50
		final leased a 1070
		final blocked b 60`,
}

func TestKeys(t *testing.T) { expectEach(t, wrongKeys, rightKeys, bounds) }
