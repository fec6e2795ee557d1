package history_test

import (
	"testing"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// Wrong histories of what a message can ask for, by the rule that they break.
var wrongAsks = map[history.Rule]map[string]string{
	history.Replaced: {
		"handed out after it was replaced": `
			0-2 p publish m ok version=1 due=0 outcome=created
			3-4 p publish m ok version=2 mode=replace due=0 outcome=replaced
			20-21 w takes m version=1 due=0
			22-23 w ack m ok version=1 receipt=1020
			final ready m 0 2`,
		"handed out after another was created": `
			0-2 p publish m ok version=1 due=0 outcome=created
			3-4 p publish m ok version=2 due=0 outcome=created
			20-21 w takes m version=1 due=0
			22-23 w ack m ok version=1 receipt=1020
			final ready m 0 2`,
		"handed out again, when its lease had ended": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			1100-1102 p publish m ok version=2 mode=debounce due=1200 outcome=moved
			1150-1151 w takes m version=1 due=1005 attempt=2
			1152-1153 w ack m ok version=1 receipt=2150
			final scheduled m 1200 2`,
		"there": `
			0-2 p publish m ok version=1 due=9000 outcome=created
			3-4 p publish m ok version=2 mode=replace due=4 outcome=replaced
			5-6 w takes m version=2 due=4
			7-8 w ack m ok version=2 receipt=1005
			final scheduled m 9000 1`,
		"a successor that was replaced": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			9-10 p publish m ok version=3 mode=replace then=after due=10 state=leased outcome=replaced
			11-12 w ack m ok version=1 receipt=1005
			20-21 w takes m version=2 due=8
			22-23 w ack m ok version=2 receipt=1020
			final ready m 10 3`,
	},
	history.Lost: {
		"replaced in vain": `
			0-2 p publish m ok version=1 due=9000 outcome=created
			3-4 p publish m no version=2 outcome=refused`,
		"acknowledged, and its successor nowhere": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			11-12 w ack m ok version=1 receipt=1005`,
		"created beside one that was lost": `
			0-2 p publish m ok version=1 due=0 outcome=created
			3-4 p publish m ok version=2 due=0 outcome=created
			final ready m 0 2`,
		"to be dropped, with attempts left": `
			0-2 p publish m ok due=0 fail=drop limit=3
			5-6 w takes m due=0`,
		"acknowledged at a claim of another topic": `
			0-2 p publish m ok due=0
			5-6 w takes n at=5 topic=u topics=u now=true due=0 receipt=5
			0-2 p publish n ok topic=u due=0`,
		"acknowledged at a claim whose cut was healed long before": `
			0-2000 fault cut
			5-1505 w claim unknown now=true
			9000-9002 p publish m ok due=9000`,
	},
	history.Unpublished: {
		"what was not kept": `
			0-2 p publish m ok version=1 due=0 outcome=created
			3-4 p publish m no version=2 mode=keep outcome=kept
			20-21 w takes m version=2 due=0
			22-23 w ack m ok version=2 receipt=1020
			final ready m 0 1`,
	},
	history.Refused: {
		"the id was never used": `
			0-2 p publish m no version=1 outcome=refused`,
		"acknowledged long before": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 w ack m ok version=1 receipt=1005
			20-22 p publish m no version=2 outcome=refused`,
		"kept, after a cancel": `
			0-2 p publish m ok version=1 due=0 outcome=created
			3-4 p cancel m ok
			20-22 p publish m no version=2 mode=keep outcome=kept`,
		"taken for too long": `
			0-2 p publish m ok version=1 due=0 outcome=created unique=50
			5-6 w takes m version=1 due=0
			7-8 w ack m ok version=1 receipt=1005
			80-82 p publish m no version=2 outcome=refused`,
		"the one before it was refused, too": `
			0-2 p publish m no version=1 outcome=refused
			4-6 p publish m no version=2 outcome=refused`,
	},
	history.Unique: {
		"too early": `
			0-2 p publish m ok version=1 due=0 outcome=created unique=500
			5-6 w takes m version=1 due=0
			7-8 w ack m ok version=1 receipt=1005
			80-82 p publish m ok version=2 due=80 outcome=created
			final ready m 80 2`,
	},
	history.Previous: {
		"another": `
			0-2 p publish m ok version=1 due=9000 outcome=created
			3-4 p publish m ok version=2 mode=replace due=9100 outcome=replaced previous=9001
			final scheduled m 9100 2`,
		"of the one before it": `
			0-2 p publish m ok version=1 due=9000 outcome=created
			3-4 p publish m ok version=2 mode=replace due=9100 outcome=replaced previous=9000
			20-21 p publish m ok version=3 mode=replace due=9200 outcome=replaced previous=9000
			final scheduled m 9200 3`,
		"before it was due, where others claim": `
			0-2 p publish n ok due=0
			5-6 s handle n ok due=0 attempt=1 receipt=1005 lease=1000
			10-12 p publish m ok version=1 due=9000 outcome=created
			13-14 p publish m ok version=2 mode=replace due=9100 outcome=replaced previous=8999
			final scheduled m 9100 2`,
	},
	history.Debounced: {
		"put off for too long": `
			0-2 p publish m ok version=1 mode=debounce max_wait=100 due=50 outcome=created
			80-82 p publish m ok version=2 mode=debounce max_wait=100 due=130 outcome=moved
			final scheduled m 130 2`,
		"due later than acknowledged": `
			0-2 p publish m ok version=1 mode=debounce due=50 outcome=created
			60-61 w takes m version=1 due=60
			62-63 w ack m ok version=1 receipt=1060`,
	},
	history.Early: {
		"before its last due": `
			0-2 p publish m ok version=1 mode=debounce due=50 outcome=created
			10-12 p publish m ok version=2 mode=debounce due=110 outcome=moved
			60-61 w takes m version=2 due=50
			62-63 w ack m ok version=2 receipt=1060`,
	},
	history.Successor: {
		"while the first is in hand": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			20-21 v takes m version=2 due=8
			22-23 v ack m ok version=2 receipt=1020
			24-25 w ack m ok version=1 receipt=1005`,
		"while its handler runs": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-100 s handle m ok version=1 due=0 attempt=1 receipt=1005 lease=1000
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			20-21 z handle m ok version=2 due=8 attempt=1 receipt=1020 lease=1000`,
		"within an extended lease": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			900-901 w extend m ok version=1 was=1005 receipt=1900
			1100-1101 v takes m version=2 due=8
			1102-1103 v ack m ok version=2 receipt=2100
			1104-1105 w ack m ok version=1 receipt=1900`,
	},
	history.Again: {
		"a successor, twice": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			9-10 w ack m ok version=1 receipt=1005
			20-21 v takes m version=2 due=8
			22-23 v ack m ok version=2 receipt=1020
			30-31 v takes m version=2 due=8
			32-33 v ack m ok version=2 receipt=1030`,
		"acknowledged by its claim": `
			0-2 p publish m ok due=0
			5-6 w takes m at=5 now=true due=0 receipt=5
			1100-1101 w takes m due=0
			1102-1103 w ack m ok receipt=2100`,
	},
	history.Cancelled: {
		"a version": `
			0-2 p publish m ok version=1 due=0 outcome=created
			3-4 p cancel m ok
			20-21 w takes m version=1 due=0
			22-23 w ack m ok version=1 receipt=1020`,
		"a successor": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			9-10 p cancel-next m ok
			11-12 w ack m ok version=1 receipt=1005
			20-21 w takes m version=2 due=8
			22-23 w ack m ok version=2 receipt=1020`,
		"a successor that is still there": `
			0-2 p publish m ok version=1 due=0 outcome=created
			5-6 w takes m version=1 due=0
			7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
			9-10 p cancel-next m ok
			11-12 w ack m ok version=1 receipt=1005
			final next m 0 2`,
	},
	history.Dropped: {
		"dead": `
			0-2 p publish m ok due=0 fail=drop limit=1
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 state=dead
			final dead m 8`,
		"not counted": `
			0-2 p publish m ok due=0 fail=drop limit=1
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 state=dropped
			final dropped 0`,
		"counted twice": `
			0-2 p publish m ok due=0 fail=drop limit=1
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 state=dropped
			final dropped 2`,
		"counted, and none may be": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005
			final dropped 1`,
		"a broadcast that expired, not counted": `
			0-2 p broadcast b ok due=0 ttl=50
			900 h drained
			final dropped 0`,
	},
	history.Double: {
		"dropped, and handed out again": `
			0-2 p publish m ok due=0 fail=drop limit=1
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 state=dropped
			20-21 w takes m due=0
			22-23 w ack m ok receipt=1020`,
	},
	history.TooLate: {
		"handed out": `
			0-2 p publish m ok due=0 late_after=50 late=drop
			60-61 w takes m due=0
			62-63 w ack m ok receipt=1060`,
		"handed out in a later attempt": `
			0-2 p publish m ok due=0 late_after=50 late=bury
			10-11 w takes m due=0
			12-13 w nack m ok receipt=1010 due=55 state=scheduled
			60-61 w takes m due=55 attempt=2
			62-63 w ack m ok receipt=1060`,
		"handed out, where it did not say what is to become of it": `
			0-2 p publish m ok due=0 late_after=50
			60-61 w takes m due=0
			62-63 w ack m ok receipt=1060`,
	},
	history.Lease: {
		"another lease than it asks for": `
			0-2 p publish m ok due=0 lease=200
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005`,
		"beyond its try": `
			0-2 p publish m ok due=0 try=500
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005`,
		"extended beyond its try": `
			0-2 p publish m ok due=0 try=500
			5-6 w takes m due=0 lease=500 receipt=505
			300-301 w extend m ok was=505 receipt=800
			302-303 w ack m ok receipt=800`,
	},
	history.Attempts: {
		"a snooze uses one": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w snooze m ok receipt=1005 due=15 state=scheduled
			20-21 w takes m due=15 attempt=2
			22-23 w ack m ok receipt=1020`,
		"a lease cut by the timeout of a try uses none": `
			0-2 p publish m ok due=0 try=500
			5-6 w takes m due=0 lease=500 receipt=505
			600-601 w takes m due=505 lease=500 receipt=1100
			602-603 w ack m ok receipt=1100`,
	},
	history.Asked: {
		"another topic": `
			0-2 p publish m ok due=0
			5-6 w takes m topics=a,b due=0
			7-8 w ack m ok receipt=1005`,
	},
	history.Expired: {
		"a broadcast, sent": `
			0-2 p broadcast b ok due=10 ttl=50
			final log b 70`,
		"a broadcast, received": `
			0-2 p broadcast b ok due=10 ttl=50
			1 l listen listener=x pattern=t position=1
			700-701 l receive b ok listener=x position=20
			final log b 20`,
	},
	history.Missed: {
		"a broadcast that had not expired": `
			0-2 p broadcast b ok due=0 ttl=90000
			1 l listen listener=x pattern=t position=1
			5000 h drained
			final log b 5`,
	},
}

// Right histories that look much like the wrong ones.
var rightAsks = map[string]string{
	"replaced, and the last is handed out": `
		0-2 p publish m ok version=1 due=0 outcome=created
		3-4 p publish m ok version=2 mode=replace due=0 outcome=replaced
		20-21 w takes m version=2 due=0
		22-23 w ack m ok version=2 receipt=1020`,
	"says what was due before": `
		0-2 p publish m ok version=1 due=9000 outcome=created
		3-4 p publish m ok version=2 mode=replace due=9100 outcome=replaced previous=9000
		5-6 p publish m ok version=3 mode=debounce due=9200 outcome=moved previous=9100
		final scheduled m 9200 3`,
	"was due at another time, since it had been given back": `
		0-2 p publish m ok version=1 due=0 outcome=created
		3-4 w takes m version=1 due=0
		5-6 w nack m ok version=1 receipt=1003 due=20 state=scheduled
		7-8 p publish m ok version=2 mode=replace due=9100 outcome=replaced previous=20
		final scheduled m 9100 2`,
	"was due when the lease of a claim ended that its handler never began": `
		0-2 p publish n ok due=0
		5-6 s handle n ok due=0 attempt=1 receipt=1005 lease=1000
		10-12 p publish m ok version=1 due=12 outcome=created
		1100-1102 p publish m ok version=2 mode=debounce max_wait=100 due=1020 outcome=moved previous=1020
		1110-1115 s handle m ok version=2 due=1020 attempt=1 receipt=2110 lease=1000`,
	"was due when the lease of a claim ended that nobody heard of": `
		0-2 p publish m ok version=1 due=2 outcome=created
		5-? w claim
		1100-1102 p publish m ok version=2 mode=debounce due=1010 outcome=moved previous=1010
		1110-1111 v takes m version=2 due=1010
		1112-1113 v ack m ok version=2 receipt=2110`,
	"replaced while it is claimed": `
		0-2 p publish m ok version=1 due=0 outcome=created
		3-30 p publish m ok version=2 mode=replace due=0 outcome=created
		20-21 w takes m version=1 due=0
		22-23 w ack m ok version=1 receipt=1020
		final ready m 0 2`,
	"replaced perhaps": `
		0-2 p publish m ok version=1 due=0 outcome=created
		3-? p publish m version=2 mode=replace
		20-21 w takes m version=1 due=0
		22-23 w ack m ok version=1 receipt=1020`,
	"handed out again, with a successor": `
		0-2 p publish m ok version=1 due=0 outcome=created
		5-6 w takes m version=1 due=0
		7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
		9-10 w nack m ok version=1 receipt=1005 due=20 state=scheduled
		20-21 w takes m version=1 due=20 attempt=2
		22-23 w ack m ok version=1 receipt=1020
		30-31 w takes m version=2 due=8
		32-33 w ack m ok version=2 receipt=1030`,
	"a successor that waits": `
		0-2 p publish m ok version=1 due=0 outcome=created
		5-6 w takes m version=1 due=0
		7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
		9-10 w nack m ok version=1 receipt=1005 due=9000 state=scheduled
		final scheduled m 9000 1
		final next m 0 2
		final scheduled m 9000 1`,
	"dead, and its successor has the id": `
		0-2 p publish m ok version=1 due=0 outcome=created
		5-6 w takes m version=1 due=0
		7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
		9-10 w bury m ok version=1 receipt=1005 state=dead
		final ready m 8 2`,
	"a successor that is handed out when the lease of the first has ended": `
		0-2 p publish m ok version=1 due=0 outcome=created limit=1
		5-6 w takes m version=1 due=0
		7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
		1100-1101 v takes m version=2 due=8
		1102-1103 v ack m ok version=2 receipt=2100`,
	"a successor that was cancelled, after another": `
		0-2 p publish m ok version=1 due=0 outcome=created
		5-6 w takes m version=1 due=0
		7-8 p publish m ok version=2 then=after due=8 state=leased outcome=created
		9-10 w ack m ok version=1 receipt=1005
		20-21 w takes m version=2 due=8
		22-23 p publish m ok version=3 then=after due=23 state=leased outcome=created
		24-25 p cancel-next m ok
		26-27 w ack m ok version=2 receipt=1020`,
	"refused while it is there": `
		0-2 p publish m ok version=1 due=0 outcome=created
		3-4 p publish m no version=2 outcome=refused
		final ready m 0 1`,
	"refused while it is acknowledged": `
		0-2 p publish m ok version=1 due=0 outcome=created
		5-6 w takes m version=1 due=0
		7-30 w ack m ok version=1 receipt=1005
		20-22 p publish m no version=2 outcome=refused`,
	"refused because of itself": `
		0-2 p publish m unknown version=1
		3-4 p publish m no version=1 outcome=refused
		final ready m 0 1`,
	"a successor of its own, after an unknown answer": `
		0-2 p publish m unknown version=1 then=after unique=500
		3-6 p publish m ok version=1 then=after due=100 state=leased outcome=created unique=500
		5-7 w takes m version=1 due=0
		8-9 w ack m ok version=1 receipt=1005
		101-102 w takes m version=1 due=100
		103-105 p publish m ok version=2 then=after due=104 state=leased outcome=created
		106-107 w ack m ok version=1 receipt=1101
		final ready m 104 2`,
	"refused while the id is taken": `
		0-2 p publish m ok version=1 due=0 outcome=created unique=500
		5-6 w takes m version=1 due=0
		7-8 w ack m ok version=1 receipt=1005
		80-82 p publish m no version=2 outcome=refused
		600-602 p publish m ok version=3 due=602 outcome=created
		final ready m 602 3`,
	"free again by a cancel": `
		0-2 p publish m ok version=1 due=0 outcome=created unique=500
		5-6 w takes m version=1 due=0
		7-8 w ack m ok version=1 receipt=1005
		20-21 p cancel m ok state=done
		80-82 p publish m ok version=2 due=80 outcome=created
		final ready m 80 2`,
	"debounced up to its max_wait": `
		0-2 p publish m ok version=1 mode=debounce max_wait=100 due=50 outcome=created
		40-42 p publish m ok version=2 mode=debounce max_wait=100 due=91 outcome=moved
		80-82 p publish m ok version=3 mode=debounce max_wait=100 due=101 outcome=moved
		101-102 w takes m version=3 due=101
		103-104 w ack m ok version=3 receipt=1101`,
	"debounced when it was over": `
		0-2 p publish m ok version=1 mode=debounce max_wait=100 due=50 outcome=created
		300-302 p publish m ok version=2 mode=debounce max_wait=100 due=301 outcome=moved
		310-311 w takes m version=2 due=301
		312-313 w ack m ok version=2 receipt=1310`,
	"dropped at its last attempt": `
		0-2 p publish m ok due=0 fail=drop limit=1
		5-6 w takes m due=0
		7-8 w nack m ok receipt=1005 state=dropped
		final dropped 1`,
	"dropped when its lease ended": `
		0-2 p publish m ok due=0 fail=drop limit=1
		5-6 w takes m due=0
		final dropped 1`,
	"dropped when it expired": `
		0-2 p publish m ok due=0 fail=drop ttl=50
		final dropped 1`,
	"buried, though it was to be dropped": `
		0-2 p publish m ok due=0 fail=drop
		5-6 w takes m due=0
		7-8 w bury m ok receipt=1005 state=dead
		final dead m 8
		final dropped 0`,
	"dropped since it was late": `
		0-2 p publish m ok due=0 late_after=50 late=drop
		final dropped 1`,
	"buried since it was late, though it was to be dropped at its last attempt": `
		0-2 p publish m ok due=0 late_after=50 fail=drop
		final dead m 60`,
	"not late": `
		0-2 p publish m ok due=0 late_after=50 late=drop
		40-41 w takes m due=0
		62-63 w ack m ok receipt=1040`,
	"the lease that it asks for, within its try": `
		0-2 p publish m ok due=0 lease=900 try=500
		5-6 w takes m due=0 lease=500 receipt=505
		7-8 w ack m ok receipt=505`,
	"snoozed": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w snooze m ok receipt=1005 due=15 state=scheduled
		20-21 w takes m due=15
		22-23 w ack m ok receipt=1020`,
	"snoozed perhaps": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-? w snooze m receipt=1005
		20-21 w takes m due=15
		22-23 w ack m ok receipt=1020`,
	"acknowledged by its claim": `
		0-2 p publish m ok due=0
		5-6 w takes m at=5 now=true due=0 receipt=5`,
	"acknowledged by a claim that nobody heard of": `
		0-2 p publish m ok due=0
		5-? w claim now=true`,
	"acknowledged by a claim that a cut held for longer than its caller waited": `
		0-2000 fault cut
		5-1505 w claim unknown now=true
		1600-1602 p publish m ok due=1700`,
	"one of several topics": `
		0-2 p publish m ok due=0
		5-6 w takes m topics=a,t due=0
		7-8 w ack m ok receipt=1005`,
	"a broadcast that expired, dropped": `
		0-2 p broadcast b ok due=0 ttl=50
		final dropped 1`,
	"a broadcast that expired, left out": `
		0-2 p broadcast a ok due=0
		0-2 p broadcast b ok due=0 ttl=50
		1 l listen listener=x pattern=t position=1
		4000-4001 l receive a ok listener=x position=6
		5000 h drained
		final log b 5
		final log a 6`,
	"a broadcast, received late from one who read it in time": `
		0-2 p broadcast b ok due=10 ttl=50
		20-900 fault cut
		1 l listen listener=x pattern=t position=1
		700-701 l receive b ok listener=x position=20 target=d
		final log b 20`,
}

func TestAsks(t *testing.T) { expectEach(t, wrongAsks, rightAsks, bounds) }
