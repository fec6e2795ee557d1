package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// stopped is a message that is cancelled while it is leased.
const stopped = `
	0-2 p publish a ok due=50
	70-71 w takes a due=50
	80-81 p cancel a ok stop=true state=leased
	`

// stoppedInKey is one with a key, before another one of that.
const stoppedInKey = `
	0-2 p publish a ok key=k due=50
	3-4 p publish b ok key=k due=60
	70-71 w takes a due=50
	80-81 p cancel a ok stop=true state=leased
	`

// Wrong histories of messages that are cancelled with a stop, by the rule that they break.
var wrongStops = map[history.Rule]map[string]string{
	history.Stopped: {
		"extended": stopped + `
			90-91 w extend a ok was=1070 receipt=1090
			92-93 w nack a ok receipt=1090 state=cancelled`,
		"to come again": stopped + `
			90-91 w nack a ok receipt=1070 due=120 state=scheduled`,
		"dead": stopped + `
			90-91 w bury a ok receipt=1070 state=dead`,
	},
	history.Cancelled: {
		"it came again": stopped + `
			1100-1101 w takes a due=1070 attempt=2
			1102-1103 w ack a ok receipt=2100`,
		"released, and it came again": stopped + `
			82-83 w release a ok receipt=1070
			90-91 w takes a due=50
			92-93 w ack a ok receipt=1090`,
		"pushed again": `
			0-2 p publish a ok due=50
			70-75 h handle a no due=50 attempt=1 receipt=1070 lease=1000 target=daemons
			80-81 p cancel a ok stop=true state=scheduled
			120-125 h handle a ok due=110 attempt=2 receipt=1120 lease=1000 target=daemons`,
		"a dead letter": stopped + `
			final dead a 1070`,
		"ready at the end": stopped + `
			final ready a 1070`,
		"it waited": `
			0-2 p publish a ok due=50
			30-31 p cancel a ok stop=true state=scheduled
			70-71 w takes a due=50
			72-73 w ack a ok receipt=1070`,
	},
	history.Seat: {
		"the next of its key, before its lease ended": stoppedInKey + `
			90-91 x takes b due=60
			92-93 x ack b ok receipt=1090`,
	},
	history.Lost: {
		"nobody cancelled it": `
			0-2 p publish a ok due=50
			70-71 w takes a due=50
			80-81 p cancel a no stop=true
			90-91 w nack a ok receipt=1070 state=cancelled`,
	},
}

// Histories that break no rule.
var rightStops = map[string]string{
	"given back":                        stopped + "90-91 w nack a ok receipt=1070 state=cancelled",
	"released":                          stopped + "90-91 w release a ok receipt=1070",
	"its lease ended":                   stopped,
	"leased still":                      stopped + "final leased a 1070",
	"acknowledged all the same":         stopped + "90-91 w ack a ok receipt=1070",
	"extended before":                   stopped + "75-76 w extend a ok was=1070 receipt=1075",
	"extended before that was answered": stopped + "80-82 w extend a ok was=1070 receipt=1081",
	"a poll got what was claimed for an earlier one": `
		0-2 p publish a ok due=50
		80-81 p cancel a ok stop=true state=leased
		90-91 w takes a at=70 due=50
		92-93 w ack a ok receipt=1070`,
	"given back before": `
		0-2 p publish a ok due=50
		70-71 w takes a due=50
		78-82 w nack a ok receipt=1070 due=120 state=scheduled
		80-85 p cancel a ok stop=true state=scheduled`,
	"it may have been cancelled": `
		0-2 p publish a ok due=50
		70-71 w takes a due=50
		80-? p cancel a stop=true
		90-91 w nack a ok receipt=1070 due=120 state=scheduled
		130-131 w takes a due=120 attempt=2
		132-133 w ack a ok receipt=1130`,
	"it was forgotten": `
		0-2 p publish a ok due=50
		70-71 w takes a due=50
		80-81 p cancel a ok stop=true state=leased
		82-100 fault power loss=10
		1130-1131 w takes a due=1070 attempt=2
		1132-1133 w ack a ok receipt=2130`,
	"the next of its key, after it was given back": stoppedInKey + `
		84-85 w release a ok receipt=1070
		90-91 x takes b due=60
		92-93 x ack b ok receipt=1090`,
	"the next of its key, after its lease": stoppedInKey + `
		1074-1075 x takes b due=60
		1076-1077 x ack b ok receipt=2074`,
	"the next of its key, while it waited": `
		0-2 p publish a ok key=k due=50
		3-4 p publish b ok key=k due=60
		52-53 p cancel a ok stop=true state=ready
		70-71 x takes b due=60
		72-73 x ack b ok receipt=1070`,
}

func TestStops(t *testing.T) { expectEach(t, wrongStops, rightStops, bounds) }
