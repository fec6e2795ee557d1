package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// branched are the bounds of a topic b that has two branches, of which one has one worker of concurrency 1.
func branched() history.Bounds {
	b := bounds
	b.Branches, b.Ordered = map[string][]string{"b": {"b@x", "b@y"}}, []string{"b@y"}
	return b
}

// A message that is published, and what handles it in one branch and in the other one.
const (
	publishedToBoth = `
		0-2 p publish m ok topic=b due=10`
	inX = `
		10-11 w takes m topic=b@x due=10
		12-13 w ack m ok topic=b@x receipt=1010`
	inY = `
		10-11 v takes m topic=b@y due=10
		12-13 v ack m ok topic=b@y receipt=1010`
)

// The same in a group, and what waits for that, in both.
const (
	groupInBoth = `
		0-2 p publish m ok topic=b due=10 group=g
		5-6 p publish done ok topic=b due=9000 after_group=b:g`
	comesToBoth = `
		80-81 w takes done topic=b@x due=80
		82-83 w ack done ok topic=b@x receipt=1080
		80-81 v takes done topic=b@y due=80
		82-83 v ack done ok topic=b@y receipt=1080`
)

// Wrong histories of a topic with branches, by the rule that they break.
var wrongCopies = map[history.Rule]map[string]string{
	history.Lost: {
		"missing in one branch": publishedToBoth + inX,
		"missing in both":       publishedToBoth,
		"its original was forgotten once it was copied": publishedToBoth + inX + `
			5-6 p cancel m ok topic=b state=done`,
		"missing, and there in the other one": publishedToBoth + `
			final ready b@x/m 10`,
		"its handler in a branch was killed": publishedToBoth + inX + `
			10-? s handle m topic=b@y due=10 attempt=1 receipt=1010 lease=1000`,
		"cancelled in vain": publishedToBoth + inX + `
			20-21 p cancel m no topic=b`,
		"of another id": publishedToBoth + inX + `
			0-2 p publish m~5 ok topic=b due=10
			10-11 v takes m~5 topic=b@y due=10
			12-13 v ack m~5 ok topic=b@y receipt=1010
			10-11 w takes m~5 topic=b@x due=10
			12-13 w ack m~5 ok topic=b@x receipt=1010`,
	},
	history.Again: {
		"twice in a branch": publishedToBoth + inX + inY + `
			20-21 w takes m topic=b@x due=10
			22-23 w ack m ok topic=b@x receipt=1020`,
		"done in a branch, and there": publishedToBoth + inX + inY + `
			final ready b@y/m 10`,
	},
	history.Double: {
		"twice in a branch at once": publishedToBoth + inY + `
			10-15 s handle m ok topic=b@x due=10 attempt=1 receipt=1010 lease=1000
			12-15 s handle m ok topic=b@x due=10 attempt=1 receipt=1012 lease=1000`,
		"under another id": publishedToBoth + inX + inY + `
			20-21 w takes m~5 topic=b@x due=10
			22-23 w ack m~5 ok topic=b@x receipt=1020`,
		"under another id, which is dead": publishedToBoth + inX + inY + `
			final dead b@y/m~5 20`,
	},
	history.Attempts: {
		"twice in a branch behind a lease": publishedToBoth + inY + `
			10-15 s handle m ok topic=b@x due=10 attempt=1 receipt=1010 lease=1000
			1012-1015 s handle m ok topic=b@x due=10 attempt=1 receipt=2012 lease=1000`,
	},
	history.Early: {
		"in a branch": publishedToBoth + inY + `
			5-11 w takes m at=9 topic=b@x due=0
			12-13 w ack m ok topic=b@x receipt=1009`,
		"in a branch, before its original was due anew": publishedToBoth + `
			3-4 p reschedule m ok topic=b due=100
			50-51 w takes m topic=b@x due=10
			52-53 w ack m ok topic=b@x receipt=1050
			100-101 v takes m topic=b@y due=100
			102-103 v ack m ok topic=b@y receipt=1100`,
	},
	history.Cancelled: {
		"before it was copied": publishedToBoth + `
			3-4 p cancel m ok topic=b
			20-21 w takes m topic=b@x due=10
			22-23 w ack m ok topic=b@x receipt=1020`,
		"and there in a branch": publishedToBoth + `
			3-4 p cancel m ok topic=b
			final ready b@x/m 10`,
	},
	history.Expired: {
		"in a branch": `
			0-2 p publish m ok topic=b due=10 ttl=50` + inX + `
			70-71 v takes m topic=b@y due=10
			72-73 v ack m ok topic=b@y receipt=1070`,
	},
	history.Unpublished: {
		"in a branch, and refused": `
			0-2 p publish m no topic=b` + inX,
		"in another branch": publishedToBoth + inX + inY + `
			10-11 w takes m topic=b@z due=10
			12-13 w ack m ok topic=b@z receipt=1010`,
	},
	history.Seat: {
		"two of a key in one branch": `
			0-1 p publish m ok topic=b due=10 key=k
			2-3 p publish n ok topic=b due=20 key=k` + inY + `
			20-21 v takes n topic=b@y due=20
			22-23 v ack n ok topic=b@y receipt=1020
			30-31 w takes m topic=b@x due=10
			35-36 w takes n topic=b@x due=20
			37-38 w ack n ok topic=b@x receipt=1035
			40-41 w ack m ok topic=b@x receipt=1030`,
	},
	history.GroupEarly: {
		"before it was handled in a branch": groupInBoth + inX + comesToBoth + `
			90-91 v takes m topic=b@y due=10
			92-93 v ack m ok topic=b@y receipt=1090`,
		"and there in a branch": groupInBoth + inX + comesToBoth + `
			final ready b@y/m 10`,
		"before it was copied": groupInBoth + comesToBoth + `
			final ready b/m 10`,
	},
	history.GroupMissing: {
		"all copies were acknowledged": groupInBoth + inX + inY + `
			400 h drained
			final scheduled b/done 9000`,
	},
	history.Order: {
		"of a branch": publishedToBoth + inX + `
			3-4 p publish n ok topic=b due=20
			20-21 v takes n topic=b@y due=20
			22-23 v ack n ok topic=b@y receipt=1020
			30-31 v takes m topic=b@y due=10
			32-33 v ack m ok topic=b@y receipt=1030
			30-31 w takes n topic=b@x due=20
			32-33 w ack n ok topic=b@x receipt=1030`,
	},
}

// Histories of a topic with branches that break no rule.
var rightCopies = map[string]string{
	"once in each branch": publishedToBoth + inX + inY,
	"waits to be copied": publishedToBoth + `
		final scheduled b/m 10`,
	"waits in a branch": publishedToBoth + inX + `
		final ready b@y/m 10`,
	"its original died": publishedToBoth + `
		final dead b/m 20`,
	"its original was cancelled": publishedToBoth + `
		3-4 p cancel m ok topic=b`,
	"its original may be cancelled": publishedToBoth + inX + `
		3-30 p cancel m unknown topic=b`,
	"cancelled when it was copied": publishedToBoth + inX + inY + `
		20-21 p cancel m no topic=b`,
	"its original was forgotten once it was copied": publishedToBoth + inX + `
		5-6 p cancel m ok topic=b state=done` + inY,
	"another attempt in one branch": publishedToBoth + inX + `
		10-11 v takes m topic=b@y due=10
		12-13 v nack m ok topic=b@y receipt=1010 due=30 state=scheduled
		30-31 v takes m topic=b@y due=30 attempt=2
		32-33 v ack m ok topic=b@y receipt=1030`,
	"published twice, since an answer was lost": `
		0-2 p publish m unknown topic=b due=10
		3-4 p publish m ok topic=b due=10` + inX + inY + `
		20-21 w takes m~5 topic=b@x due=10
		22-23 w ack m~5 ok topic=b@x receipt=1020
		final dead b@y/m~5 20`,
	"of a key, one in each branch": `
		0-1 p publish m ok topic=b due=10 key=k
		2-3 p publish n ok topic=b due=20 key=k
		30-31 w takes m topic=b@x due=10
		60-61 w ack m ok topic=b@x receipt=1030
		30-31 v takes m topic=b@y due=10
		32-33 v ack m ok topic=b@y receipt=1030
		40-41 v takes n topic=b@y due=20
		42-43 v ack n ok topic=b@y receipt=1040
		70-71 w takes n topic=b@x due=20
		72-73 w ack n ok topic=b@x receipt=1070`,
	"of keys, in another order in a branch": `
		0-1 p publish m ok topic=b due=10 key=k
		2-3 p publish n ok topic=b due=20 key=l` + inX + `
		20-21 w takes n topic=b@x due=20
		22-23 w ack n ok topic=b@x receipt=1020
		20-21 v takes n topic=b@y due=20
		22-23 v ack n ok topic=b@y receipt=1020
		30-31 v takes m topic=b@y due=10
		32-33 v ack m ok topic=b@y receipt=1030`,
	"copied again by a call that stopped half way": publishedToBoth + inX + inY + `
		5-15 fault refused halfway=true
		20-21 w takes m topic=b@x due=10
		22-23 w ack m ok topic=b@x receipt=1020
		20-21 v takes m~5 topic=b@y due=10
		22-23 v ack m~5 ok topic=b@y receipt=1020`,
	"cancelled, and half copied": publishedToBoth + `
		5-15 fault refused halfway=true
		12-13 p cancel m ok topic=b
		20-21 w takes m topic=b@x due=10
		22-23 w ack m ok topic=b@x receipt=1020`,
	"due anew, and half copied": publishedToBoth + inX + inY + `
		5-15 fault refused halfway=true
		11-12 p reschedule m ok topic=b due=100
		100-101 w takes m topic=b@x due=100
		102-103 w ack m ok topic=b@x receipt=1100`,
	"what Redis forgot": publishedToBoth + inX + `
		30-50 fault power loss=1000`,
	"of a group, and what waits for that, before what is due later": groupInBoth + inX + inY + `
		3-4 p publish n ok topic=b due=90` + comesToBoth + `
		90-91 w takes n topic=b@x due=90
		92-93 w ack n ok topic=b@x receipt=1090
		90-91 v takes n topic=b@y due=90
		92-93 v ack n ok topic=b@y receipt=1090`,
	"of a group that a dead copy holds": groupInBoth + inX + `
		10-11 v takes m topic=b@y due=10
		12-13 v bury m ok topic=b@y receipt=1010 state=dead
		400 h drained
		final dead b@y/m 12
		final scheduled b/done 9000`,
}

func TestCopies(t *testing.T) { expectEach(t, wrongCopies, rightCopies, branched()) }
