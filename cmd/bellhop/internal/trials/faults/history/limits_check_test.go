package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// Wrong histories of topics with limits, by the rule that they break.
var wrongLimits = map[history.Rule]map[string]string{
	history.Limited: {
		"one more than there may be": `
			0-2 p publish a ok due=50 topic=two
			3-4 p publish b ok due=50 topic=two
			5-6 p publish c ok due=50 topic=two
			70-71 w takes a due=50 topic=two
			72-73 x takes b due=50 topic=two
			74-75 y takes c due=50 topic=two
			80-81 w ack a ok receipt=1070 topic=two
			82-83 x ack b ok receipt=1072 topic=two
			84-85 y ack c ok receipt=1074 topic=two`,
		"one ended and another one did not": `
			0-2 p publish a ok due=50 topic=two
			3-4 p publish b ok due=50 topic=two
			5-6 p publish c ok due=50 topic=two
			7-8 p publish d ok due=50 topic=two
			70-71 w takes a due=50 topic=two
			72-73 x takes b due=50 topic=two
			74-75 w ack a ok receipt=1070 topic=two
			76-77 y takes c due=50 topic=two
			78-79 z takes d due=50 topic=two
			82-83 x ack b ok receipt=1072 topic=two
			84-85 y ack c ok receipt=1076 topic=two
			86-87 z ack d ok receipt=1078 topic=two`,
	},
	history.Rate: {
		"a burst and one more": `
			0-2 p publish a ok due=50 topic=slow
			3-4 p publish b ok due=50 topic=slow
			5-6 p publish c ok due=50 topic=slow
			70-71 w takes a due=50 topic=slow
			72-73 x takes b due=50 topic=slow
			150-151 y takes c due=50 topic=slow
			160-161 w ack a ok receipt=1070 topic=slow
			162-163 x ack b ok receipt=1072 topic=slow
			164-165 y ack c ok receipt=1150 topic=slow`,
	},
}

// Histories that break no rule.
var rightLimits = map[string]string{
	"as many as there may be, and others later": `
		0-2 p publish a ok due=50 topic=two
		3-4 p publish b ok due=50 topic=two
		5-6 p publish c ok due=50 topic=two
		70-71 w takes a due=50 topic=two
		72-73 x takes b due=50 topic=two
		800-801 w ack a ok receipt=1070 topic=two
		802-803 y takes c due=50 topic=two
		804-805 x ack b ok receipt=1072 topic=two
		806-807 y ack c ok receipt=1802 topic=two`,
	"a call that may have ended one": `
		0-2 p publish a ok due=50 topic=two
		3-4 p publish b ok due=50 topic=two
		5-6 p publish c ok due=50 topic=two
		70-71 w takes a due=50 topic=two
		72-73 x takes b due=50 topic=two
		74-75 w ack a unknown receipt=1070 topic=two
		76-77 y takes c due=50 topic=two
		80-81 x ack b ok receipt=1072 topic=two
		82-83 y ack c ok receipt=1076 topic=two`,
	"a lease that ended": `
		0-2 p publish a ok due=50 topic=two
		3-4 p publish b ok due=50 topic=two
		5-6 p publish c ok due=50 topic=two
		70-71 w takes a due=50 topic=two
		72-73 x takes b due=50 topic=two
		74-75 x ack b ok receipt=1072 topic=two
		1075-1076 y takes c due=50 topic=two
		1077-1078 x takes a due=1070 attempt=2 topic=two
		1080-1081 y ack c ok receipt=2075 topic=two
		1082-1083 x ack a ok receipt=2077 topic=two`,
	"a burst, and one when the rate allows that": `
		0-2 p publish a ok due=50 topic=slow
		3-4 p publish b ok due=50 topic=slow
		5-6 p publish c ok due=50 topic=slow
		70-71 w takes a due=50 topic=slow
		72-73 x takes b due=50 topic=slow
		170-171 y takes c due=50 topic=slow
		180-181 w ack a ok receipt=1070 topic=slow
		182-183 x ack b ok receipt=1072 topic=slow
		184-185 y ack c ok receipt=1170 topic=slow`,
}

func TestLimits(t *testing.T) { expectEach(t, wrongLimits, rightLimits, bounds) }
