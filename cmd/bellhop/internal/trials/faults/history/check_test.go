package history_test

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

var bounds = history.Bounds{
	Attempts: 10, Ordered: []string{"one"}, Late: 500 * time.Millisecond, Recovery: time.Second,
	After:    map[string]time.Duration{"short": 100 * time.Millisecond},
	Takeover: map[string]time.Duration{"kill": 3500 * time.Millisecond, "stop": 100 * time.Millisecond, "restart": 3500 * time.Millisecond},
	Restarts: []string{"restart"}, Parting: []string{"stop"},
	Limited: map[string]history.Limit{"two": {Concurrency: 2, PerSecond: 1000, Burst: 100}, "slow": {Concurrency: 100, PerSecond: 10, Burst: 2}},
}

// Wrong histories, by the rule that they break. Most have a right twin below.
var histories = map[history.Rule]map[string]string{
	history.Lost: {
		"acknowledged and nowhere": `
			0-2 p publish m ok due=0`,
		"handled, not acknowledged, and nowhere": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			8-9 w ack m no receipt=1005`,
		"its handler was killed": `
			0-2 p publish m ok due=0
			5-? s handle m due=0 attempt=1 receipt=1005 lease=1000`,
		"cancelled in vain": `
			0-2 p publish m ok due=0
			3-4 p cancel m no`,
		"before what a power cut may forget": `
			0-2 p publish m ok due=0
			2000-2100 fault power loss=1000`,
		"broadcast": `
			0-2 p broadcast b ok due=0`,
		"before a failover": `
			0-2 p publish m ok due=0
			100-200 fault failover loss=1000 waited=true`,
		"during a failover": `
			0-100 fault failover loss=1000 waited=true
			50-52 p publish m ok due=50`,
		"broadcast before a failover": `
			0-2 p broadcast b ok due=0
			100-200 fault failover loss=1000 waited=true`,
	},
	history.Unpublished: {
		"refused and handed out": `
			0-2 p publish m no
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005`,
		"handed out before it was published": `
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005
			10-12 p publish m ok due=0`,
		"refused and there": `
			0-2 p publish m no
			final ready m`,
		"there from nowhere": `
			final ready m`,
		"broadcast from nowhere": `
			final log b 5`,
	},
	history.Early: {
		"by what it says": `
			0-2 p publish m ok due=10
			5-11 w takes m at=9 due=10
			12-13 w ack m ok receipt=1009`,
		"by what was acknowledged": `
			0-2 p publish m ok due=10
			5-11 w takes m at=9 due=0
			12-13 w ack m ok receipt=1009`,
		"after it was rescheduled": `
			0-2 p publish m ok due=10
			3-4 p reschedule m ok due=100
			50-51 w takes m at=50 due=10
			52-53 w ack m ok receipt=1050`,
		"after it was given back": `
			0-2 p publish m ok due=10
			10-11 w takes m at=10 due=10
			12-13 w nack m ok receipt=1010 due=100 state=scheduled
			50-51 w takes m at=50 due=10 attempt=2
			52-53 w ack m ok receipt=1050`,
		"broadcast": `
			0-2 p broadcast b ok due=10
			final log b 9`,
		"rescheduled before a failover": `
			0-2 p publish m ok due=10
			3-4 p reschedule m ok due=900
			100-200 fault failover loss=1000 waited=true
			500-501 w takes m due=10
			502-503 w ack m ok receipt=1500`,
	},
	history.Expired: {
		"handed out at its end": `
			0-2 p publish m ok due=10 ttl=50
			60-61 w takes m at=60 due=10
			62-63 w ack m ok receipt=1060`,
		"handed over behind its end": `
			0-2 p publish m ok due=10 ttl=50
			61-62 s handle m ok due=10 attempt=1 receipt=961 lease=900 hands=1 handed=true`,
	},
	history.Cancelled: {
		"handed out": `
			0-2 p publish m ok due=0
			3-4 p cancel m ok
			20-21 w takes m due=0
			22-23 w ack m no receipt=1020`,
		"still there": `
			0-2 p publish m ok due=0
			3-4 p cancel m ok
			final ready m`,
		"handed out after a failover": `
			0-2 p publish m ok due=0
			3-4 p cancel m ok
			100-200 fault failover loss=1000 waited=true
			300-301 w takes m due=0
			302-303 w ack m ok receipt=1300`,
		"given to a handler": `
			0-2 p publish m ok due=0
			3-4 p cancel m ok
			20-21 s handle m ok due=0 attempt=1 receipt=1020 lease=1000`,
		"broadcast, sent all the same": `
			0-2 p broadcast b ok due=10
			3-4 p cancel b ok
			final log b 20`,
	},
	history.Again: {
		"handed out": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005
			1100-1101 w takes m due=1005 attempt=2
			1102-1103 w ack m no receipt=2100`,
		"acknowledged with an extended receipt": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w extend m ok was=1005 receipt=1007
			9-10 w ack m ok receipt=1007
			1100-1101 w takes m due=1005 attempt=2`,
		"still there": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005
			final ready m`,
		"handed out after a failover": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w ack m ok receipt=1005
			100-200 fault failover loss=1000 waited=true
			300-301 w takes m due=0
			302-303 w ack m ok receipt=1300`,
	},
	history.Hands: {
		"a second one while one is handled": `
			0-2 p publish m ok due=0
			0-2 p publish n ok due=0
			5-300 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=1
			201-210 s handle n ok due=0 attempt=1 receipt=1200 lease=1000 hands=1 handed=true`,
		"one that waits until the other is handled": `
			0-2 p publish m ok due=0
			0-2 p publish n ok due=0
			5-300 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=1 handed=true
			301-310 s handle n ok due=0 attempt=1 receipt=1200 lease=1000 hands=1 handed=true`,
		"a third one beside two": `
			0-2 p publish m ok due=0
			0-2 p publish n ok due=0
			0-2 p publish o ok due=0
			5-300 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=2
			5-? s handle n due=0 attempt=1 receipt=1005 lease=1000 hands=2
			201-210 s handle o ok due=0 attempt=1 receipt=1200 lease=1000 hands=2 handed=true
			final leased n 1005`,
	},
	history.Double: {
		"within the lease": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			900-901 v takes m due=0 attempt=2
			902-903 v ack m ok receipt=1900`,
		"at the same time": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			5-6 v takes m at=6 due=0
			902-903 v ack m ok receipt=1006`,
		"within an extended lease": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			500-501 w extend m ok was=1005 receipt=1500
			1200-1201 v takes m due=1005 attempt=2
			1202-1203 v ack m ok receipt=2200`,
		"given back in vain": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w release m no receipt=1005
			20-21 v takes m due=0
			22-23 v ack m ok receipt=1020`,
		"given back too late": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			20-21 v takes m due=0
			22-? w release m receipt=1005
			23-24 v ack m ok receipt=1020`,
		"while its handler runs": `
			0-2 p publish m ok due=0
			5-500 s handle m no due=0 attempt=1 receipt=1005 lease=1000
			300-301 z handle m ok due=0 attempt=2 receipt=1300 lease=1000`,
		"buried": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w bury m ok receipt=1005 state=dead
			2000-2001 v takes m due=0 attempt=2
			2002-2003 v ack m ok receipt=3000`,
		"in spite of a clock that was set back": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			200-9000 fault clock offset=-100
			500-501 v takes m at=400 due=0 attempt=2
			502-503 v ack m ok receipt=1400`,
		"after a fault that forgets nothing": `
			0-2 p publish m ok due=0
			100-200 fault cut
			5-6 w takes m due=0
			300-301 v takes m due=0 attempt=2
			302-303 v ack m ok receipt=1300`,
	},
	history.Attempts: {
		"the first is the second": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0 attempt=2
			7-8 w ack m ok receipt=1005`,
		"a lease that ended uses none": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			1100-1101 w takes m due=1005
			1102-1103 w ack m ok receipt=2100`,
		"a release uses one": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w release m ok receipt=1005
			20-21 w takes m due=0 attempt=2
			22-23 w ack m ok receipt=1020`,
		"a refusal uses two": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 due=10 state=scheduled
			20-21 w takes m due=10 attempt=3
			22-23 w ack m ok receipt=1020`,
		"a requeue counts on": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w bury m ok receipt=1005 state=dead
			10-11 a requeue m ok
			20-21 w takes m due=11 attempt=2
			22-23 w ack m ok receipt=1020`,
		"beyond its limit": `
			0-2 p publish m ok due=0 limit=1
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 due=10 state=scheduled
			20-21 w takes m due=10 attempt=2
			22-23 w ack m ok receipt=1020`,
	},
	history.Receipts: {
		"acknowledged after it was given back": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 due=2000 state=scheduled
			9-10 w ack m ok receipt=1005`,
		"acknowledged after it was released": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w release m ok receipt=1005
			9-10 w ack m ok receipt=1005`,
		"given back twice": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1005 due=2000 state=scheduled
			9-10 w nack m ok receipt=1005 due=2000 state=scheduled
			final scheduled m 2000`,
		"given twice": `
			0-2 p publish m ok due=0
			5-6 w takes m at=5 due=0
			6-8 w release m ok receipt=1005
			7-9 v takes m at=5 due=0
			10-11 v ack m ok receipt=1005`,
		"of nobody": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			7-8 w nack m ok receipt=1006 due=20 state=scheduled
			final scheduled m 20`,
		"acknowledged with a stale receipt": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			1100-1101 w takes m due=1005 attempt=2
			1110-1111 w ack m ok receipt=1005`,
		"stale": `
			0-2 p publish m ok due=0
			5-6 w takes m due=0
			1100-1101 v takes m due=1005 attempt=2
			1120-1121 w extend m ok was=1005 receipt=2120
			1130-1131 v ack m ok receipt=2100`,
	},
	history.Late: {
		"without a fault": `
			0-2 p publish m ok due=10
			600-601 w takes m due=10
			602-603 w ack m ok receipt=1600`,
		"long after one": `
			0-2 p publish m ok due=10
			5-100 fault cut
			1700-1701 w takes m due=10
			1702-1703 w ack m ok receipt=2700`,
		"a hand was free": `
			0-2 p publish m ok due=0
			0-2 p publish n ok due=0
			0-2 p publish o ok due=0
			5-900 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=1
			5-300 z handle n ok due=0 attempt=1 receipt=1005 lease=1000 hands=1
			901-910 z handle o ok due=0 attempt=1 receipt=1901 lease=1000 hands=1`,
		"after one that is felt for less time": `
			0-2 p publish m ok due=10
			5-100 fault short
			1500-1501 w takes m due=10
			1502-1503 w ack m ok receipt=2500`,
		"the fault came too late": `
			0-2 p publish m ok due=10
			600-610 fault cut
			620-621 w takes m due=10
			622-623 w ack m ok receipt=1620`,
	},
	history.Order: {
		"received out of order": `
			0-2 p broadcast a ok due=0
			0-2 p broadcast b ok due=0
			1 l listen listener=x pattern=t position=1
			10-11 l receive b ok listener=x position=6
			12-13 l receive a ok listener=x position=5`,
		"handled out of order": `
			0-2 p broadcast a ok due=0
			0-2 p broadcast b ok due=0
			1 l listen listener=x name=n pattern=t position=1 count=1
			10-11 l receive b ok listener=x name=n position=6 attempt=1
			12-13 l receive a ok listener=x name=n position=5 attempt=1`,
		"sent out of order": `
			0-2 p broadcast a ok due=50
			0-2 p broadcast b ok due=60
			final log b 61
			final log a 62`,
		"due at once, and handled before what was overdue": `
			0-2 p publish a ok due=50 topic=one
			60-62 p publish b ok due=61 topic=one
			63-64 s handle b ok due=61 attempt=1 receipt=1063 lease=1000 topic=one
			65-66 s handle a ok due=50 attempt=1 receipt=1065 lease=1000 topic=one`,
		"handled long before what was due earlier, and nothing was the matter": `
			0-2 p publish a ok due=950 topic=one
			3-4 p publish b ok due=951 topic=one
			952-953 s handle b ok due=951 attempt=1 receipt=1952 lease=1000 topic=one
			1053-1054 s handle a ok due=950 attempt=1 receipt=2053 lease=1000 topic=one`,
		"handled before what was due earlier, amid a fault, but within a second": `
			0-2 p publish a ok due=50 topic=one
			3-4 p publish b ok due=51 topic=one
			10-11 fault cut
			52-53 s handle b ok due=51 attempt=1 receipt=1052 lease=1000 topic=one
			900-901 s handle a ok due=50 attempt=1 receipt=1900 lease=1000 topic=one`,
		"handled before what was due earlier, within a second, and the clock was set back": `
			0-2 p publish a ok due=50 topic=one
			3-4 p publish b ok due=51 topic=one
			200-9000 fault clock offset=-100
			352-353 s handle b ok due=51 attempt=1 receipt=1252 lease=1000 topic=one
			900-901 s handle a ok due=50 attempt=1 receipt=1800 lease=1000 topic=one`,
		"handled before what was due earlier": `
			0-2 p publish a ok due=50 topic=one
			3-4 p publish b ok due=51 topic=one
			63-64 s handle b no due=51 attempt=1 receipt=1063 lease=1000 topic=one
			65-66 s handle a no due=50 attempt=1 receipt=1065 lease=1000 topic=one
			67-68 s handle b ok due=66 attempt=2 receipt=1067 lease=1000 topic=one
			69-70 s handle a ok due=67 attempt=2 receipt=1069 lease=1000 topic=one`,
	},
	history.Twice: {
		"received": `
			0-2 p broadcast a ok due=0
			1 l listen listener=x pattern=t position=1
			10-11 l receive a ok listener=x position=5
			12-13 l receive a ok listener=x position=5`,
		"received, and another between": `
			0-2 p broadcast a ok due=0
			0-2 p broadcast b ok due=0
			1 l listen listener=x pattern=t position=1
			10-11 l receive a ok listener=x position=5
			12-13 l receive b ok listener=x position=6
			14-15 l receive a ok listener=x position=5`,
		"sent": `
			0-2 p broadcast a ok due=0
			final log a 5
			final log a 6`,
		"sent, before calls stopped half way": `
			0-2 p broadcast a ok due=0
			100-200 fault right halfway=true
			final log a 5
			final log a 6`,
		"sent, and once more after a call had stopped half way": `
			0-2 p broadcast a ok due=0
			100-200 fault right halfway=true
			final log a 150
			final log a 300
			final log a 400`,
	},
	history.Missed: {
		"one of three": `
			0-2 p broadcast a ok due=0
			0-2 p broadcast b ok due=0
			0-2 p broadcast c ok due=0
			1 l listen listener=x pattern=t position=1
			10-11 l receive a ok listener=x position=5
			14-15 l receive c ok listener=x position=7
			final log a 5
			final log b 6
			final log c 7`,
		"the last": `
			0-2 p broadcast a ok due=0
			1 l listen listener=x pattern=> position=1
			5000 h drained
			final log a 5`,
		"outside of a gap": `
			0-2 p broadcast a ok due=0
			0-2 p broadcast b ok due=0
			1 l listen listener=x pattern=t position=1
			2 m listen listener=y pattern=t position=4
			8-9 m receive a ok listener=y position=5
			9 l gap listener=x topic=t after=5 position=6
			10-11 l receive b ok listener=x position=7`,
		"by all of a name": `
			0-2 p broadcast a ok due=0
			0-2 p broadcast b ok due=0
			1 l listen listener=x name=n pattern=t position=1
			1 k listen listener=x name=n pattern=t position=1
			10-11 l receive a ok listener=x name=n position=5 attempt=1
			20 h kill target=k
			5000 h drained
			final log a 5
			final log b 6`,
	},
	history.FalseGap: {
		"of what is there": `
			0-2 p broadcast a ok due=0
			1 l listen listener=x pattern=t position=1
			9 l gap listener=x topic=t after=1 position=6
			final log a 5`,
	},
	history.Mover: {
		"a deposed carrier beats": `
			0 o beat epoch=1
			5 o beat epoch=2
			7 o beat epoch=1`,
	},
	history.Takeover: {
		"late": `
			0 o beat epoch=1
			5 h kill target=d epoch=1
			4000 o beat epoch=2`,
		"late after a graceful stop": `
			0 o beat epoch=1
			5 h stop target=d epoch=1
			200 o beat epoch=2`,
		"never": `
			0 o beat epoch=1
			5 h kill target=d epoch=1
			4000 o beat epoch=1
			5000 h drained`,
		"late after a fault": `
			0 o beat epoch=1
			5-9000 fault kill target=d epoch=1
			4000 o beat epoch=2`,
		"late after redis was restarted": `
			0 o beat epoch=1
			5-9000 fault restart target=d epoch=1 took=1000
			4600 o beat epoch=2`,
		"goes on, but late": `
			0 o beat epoch=1
			5-3600 fault kill target=d epoch=1
			3700 o beat epoch=1
			9000 h drained`,
		"was not healed when it beat": `
			0 o beat epoch=1
			5-9000 fault kill target=d epoch=1
			600 o beat epoch=1
			9500 h drained`,
	},
}

// Right histories that look much like the wrong ones above.
var right = map[string]string{
	"handed over before it was rescheduled, and on its way for long": `
		0-2 p publish m ok due=50
		1070-1072 p reschedule m ok due=1500 state=scheduled
		1510-1511 x takes m due=1500
		1512-1513 x ack m ok receipt=2510
		1600-1601 w takes m at=60 due=50 handed=true
		1602-1603 w nack m no receipt=1060`,
	"a carrier that goes on until its clients are answered": `
		0 o beat epoch=1
		100 h stop target=d epoch=1
		1200 o beat epoch=1
		1250 o beat epoch=2`,
	"a carrier, stopped for less than its lease, ended later": `
		0 o beat epoch=1
		5-200 fault kill target=d epoch=1
		300 o beat epoch=1
		8000 h stop target=d epoch=1
		8050 o beat epoch=2
		9500 h drained`,
	"one when the other is handled": `
		0-2 p publish m ok due=0
		0-2 p publish n ok due=0
		5-200 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=1 handed=true
		201-210 s handle n ok due=0 attempt=1 receipt=1200 lease=1000 hands=1 handed=true`,
	"one each": `
		0-2 p publish m ok due=0
		0-2 p publish n ok due=0
		5-300 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=1
		201-210 z handle n ok due=0 attempt=1 receipt=1200 lease=1000 hands=1 handed=true`,
	"late, behind others in all hands": `
		0-2 p publish m ok due=0
		0-2 p publish n ok due=0
		0-2 p publish o ok due=0
		5-900 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=1
		5-800 z handle n ok due=0 attempt=1 receipt=1005 lease=1000 hands=1
		901-910 z handle o ok due=0 attempt=1 receipt=1901 lease=1000 hands=1`,
	"two for two hands": `
		0-2 p publish m ok due=0
		0-2 p publish n ok due=0
		5-300 s handle m ok due=0 attempt=1 receipt=1005 lease=1000 hands=2
		201-210 s handle n ok due=0 attempt=1 receipt=1200 lease=1000 hands=2 handed=true`,
	"a hand-over that was not confirmed, then claimed": `
		0-2 p publish m ok due=0
		5-? s handle m due=0 attempt=1 receipt=1005 lease=1000 handed=true
		1100-1110 z handle m ok due=5 attempt=1 receipt=2100 lease=1000`,
	"a hand-over that was not confirmed, then another": `
		0-2 p publish m ok due=0
		5-? s handle m due=0 attempt=1 receipt=1005 lease=1000 handed=true
		1100-1110 z handle m ok due=5 attempt=1 receipt=2100 lease=1000 handed=true`,
	"acknowledged and there": `
		0-2 p publish m ok due=0
		final ready m`,
	"refused and nowhere": `
		0-2 p publish m no`,
	"unknown and nowhere": `
		0-2 p publish m unknown`,
	"unknown, and there later than its error": `
		0-2 p publish m unknown
		500-501 w takes m due=400
		502-503 w ack m ok receipt=1500`,
	"handled, acknowledgement unknown, nowhere": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		8-? w ack m receipt=1005`,
	"its handler was done": `
		0-2 p publish m ok due=0
		5-6 s handle m ok due=0 attempt=1 receipt=1005 lease=1000`,
	"cancelled perhaps": `
		0-2 p publish m ok due=0
		3-? p cancel m`,
	"forgotten in a power cut": `
		1500-1502 p publish m ok due=1500
		2000-2100 fault power loss=1000`,
	"broadcast that waits": `
		0-2 p broadcast b ok due=90000
		final broadcasts b 90000`,
	"broadcast that was trimmed": `
		0-2 p broadcast b ok due=0
		3-4 p broadcast c ok due=0
		1 l listen listener=x pattern=t position=4
		9 l gap listener=x topic=t after=4 position=5
		10-11 l receive c ok listener=x position=6
		6-7 l receive b ok listener=x position=5
		final log c 6`,
	"refused, then published by another": `
		0-2 p publish m no
		3-4 q publish m ok due=4
		5-6 w takes m due=4
		7-8 w ack m ok receipt=1005`,
	"on time": `
		0-2 p publish m ok due=10
		5-11 w takes m at=10 due=10
		12-13 w ack m ok receipt=1010`,
	"on time though the publisher's clock differs": `
		0-100000 fault clock offset=300000
		10-12 p publish m ok due=300011
		20-21 w takes m at=300020 due=300011
		22-23 w ack m ok receipt=301020`,
	"rescheduled to an earlier time, at the same time": `
		0-2 p publish m ok due=100
		3-60 p reschedule m ok due=20
		50-51 w takes m at=50 due=20
		52-53 w ack m ok receipt=1050`,
	"rescheduled perhaps": `
		0-2 p publish m ok due=100
		3-4 p reschedule m unknown
		50-51 w takes m at=50 due=20
		52-53 w ack m ok receipt=1050`,
	"a message that is handed over at its end, by a time that is up to 20 µs ahead": `
		0-2 p publish m ok due=10 ttl=50
		60-61 s handle m ok due=10 attempt=1 receipt=960 lease=900 hands=1 handed=true
		60-62 s ack m ok receipt=960`,
	"handed out right before the end of its time to live": `
		0-2 p publish m ok due=10 ttl=50
		59-60 w takes m at=59 due=10
		62-63 w ack m ok receipt=1059`,
	"handed out while it is cancelled in vain": `
		0-2 p publish m ok due=0
		5-6 w takes m at=5 due=0
		4-9 p cancel m no
		10-11 w ack m ok receipt=1005`,
	"given back and then cancelled": `
		0-2 p publish m ok due=0
		5-6 w takes m at=5 due=0
		7-8 w release m ok receipt=1005
		9-10 p cancel m ok state=ready`,
	"cancelled, and a second publish after an unknown one": `
		0-2 p publish m unknown
		3-4 p publish m ok due=4
		5-6 p cancel m ok
		20-21 w takes m due=10
		22-23 w ack m ok receipt=1020`,
	"acknowledgement unknown, and again after the lease": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		8-9 w ack m unknown receipt=1005
		1100-1101 w takes m due=1005 attempt=2
		1102-1103 w ack m ok receipt=2100`,
	"acknowledged, and forgotten in a power cut": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		8-9 w ack m ok receipt=1005
		500-600 fault power loss=1000
		700-701 w takes m due=0
		1102-1103 w ack m ok receipt=1700`,
	"the lease ended": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		1005-1006 v takes m due=1005 attempt=2
		1102-1103 v ack m ok receipt=2005`,
	"the extended lease ended": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		500-501 w extend m ok was=1005 receipt=1500
		1500-1501 v takes m due=1500 attempt=2
		1602-1603 v ack m ok receipt=2500`,
	"an extension made the lease shorter": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		50-51 w extend m ok was=1005 receipt=250
		300-301 v takes m due=250 attempt=2
		302-303 v ack m ok receipt=1300`,
	"an extension may have made the lease shorter": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		50-51 w extend m unknown was=1005 lease=200
		300-301 v takes m due=250 attempt=2
		302-303 v ack m ok receipt=1300`,
	"released": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w release m ok receipt=1005
		20-21 v takes m due=0
		22-23 v ack m ok receipt=1020`,
	"released perhaps": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-? w release m receipt=1005
		20-21 v takes m due=0
		22-23 v ack m ok receipt=1020`,
	"refused": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w nack m ok receipt=1005 due=10 state=scheduled
		20-21 v takes m due=10 attempt=2
		22-23 v ack m ok receipt=1020`,
	"its handler failed": `
		0-2 p publish m ok due=0
		5-100 s handle m no due=0 attempt=1 receipt=1005 lease=1000
		300-301 z handle m ok due=200 attempt=2 receipt=1300 lease=1000`,
	"the daemon that keeps its lease was stopped": `
		0-2 p publish m ok due=0
		5-? n handle m due=0 attempt=1 receipt=1005 lease=1000 target=d
		100 h stop target=d
		300-301 z handle m ok due=200 attempt=1 receipt=1300 lease=1000`,
	"buried and requeued": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w bury m ok receipt=1005 state=dead
		10-? a requeue m
		20-21 w takes m due=11
		22-23 w ack m ok receipt=1020`,
	"the clock was set past the lease": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		200-9000 fault clock offset=60000
		300-301 v takes m at=60300 due=1005 attempt=2
		302-303 v ack m ok receipt=61300`,
	"the clock was past the lease for a while": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		200-250 fault clock offset=60000
		300-301 v takes m due=0 attempt=2
		302-303 v ack m ok receipt=1300`,
	"the claim was forgotten in a power cut": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		100-200 fault power loss=1000
		300-301 v takes m due=0
		302-303 v ack m ok receipt=1300`,
	"the claim was forgotten in a failover": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		100-200 fault failover loss=1000 waited=true
		300-301 v takes m due=0
		302-303 v ack m ok receipt=1300`,
	"the former master had it claimed during a failover": `
		0-2 p publish m ok due=0
		100-200 fault failover loss=10 waited=true
		150-151 w takes m due=0
		300-301 v takes m due=0
		302-303 v ack m ok receipt=1300`,
	"its release was forgotten in a failover": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w release m ok receipt=1005
		100-200 fault failover loss=1000 waited=true
		1100-1101 v takes m due=1005 attempt=2
		1102-1103 v ack m ok receipt=2100`,
	"its publish had no answer before a failover": `
		0-2 p publish m unknown due=0
		100-200 fault failover loss=1000 waited=true`,
	"acknowledged, without an answer, before a failover": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w ack m unknown receipt=1005
		100-200 fault failover loss=1000 waited=true
		300-301 v takes m due=0
		302-303 v ack m ok receipt=1300`,
	"broadcast that was sent again after a failover": `
		0-2 p broadcast b ok due=0
		1 l listen listener=x pattern=t position=4
		10-11 l receive b ok listener=x position=6
		100-200 fault failover loss=1000 waited=true
		300-301 l receive b ok listener=x position=300
		final log b 300`,
	"a claim that was cut off took it first": `
		0-2 p publish m ok due=0
		5-6 w claim unknown lease=1000
		1100-1101 w takes m due=1005 attempt=2
		1107-1108 w ack m ok receipt=2100`,
	"late after a fault": `
		0-2 p publish m ok due=10
		5-100 fault cut
		1500-1501 w takes m due=10
		1502-1503 w ack m ok receipt=2500`,
	"late after two faults, the second of which began when the first was felt": `
		0-2 p publish m ok due=10
		5-100 fault cut
		1000-2000 fault cut
		3400-3401 w takes m due=10
		3402-3403 w ack m ok receipt=4400`,
	"sent again after a call had stopped half way": `
		0-2 p broadcast a ok due=0
		4-5 p broadcast b ok due=150
		100-200 fault right halfway=true
		final log a 150
		final log b 250
		final log a 300`,
	"received in order": `
		0-2 p broadcast a ok due=0
		0-2 p broadcast b ok due=0
		1 l listen listener=x pattern=t position=1
		12-13 l receive a ok listener=x position=5
		14-15 l receive b ok listener=x position=6
		5000 h drained
		final log a 5
		final log b 6`,
	"handled again out of order": `
		0-2 p broadcast a ok due=0
		0-2 p broadcast b ok due=0
		1 l listen listener=x name=n pattern=t position=1 count=1
		10-? l receive a listener=x name=n position=5 attempt=1
		12-13 l receive b ok listener=x name=n position=6 attempt=1
		2010-2011 l receive a ok listener=x name=n position=5 attempt=2`,
	"handled before what was due earlier, where there are several workers": `
		0-2 p publish a ok due=50
		60-62 p publish b ok due=61
		63-64 s handle b ok due=61 attempt=1 receipt=1063 lease=1000
		65-66 s handle a ok due=50 attempt=1 receipt=1065 lease=1000`,
	"handled before what was published for an earlier time at the same time": `
		61-63 p publish a ok due=50 topic=one
		60-62 p publish b ok due=61 topic=one
		63-64 s handle b ok due=61 attempt=1 receipt=1063 lease=1000 topic=one
		65-66 s handle a ok due=50 attempt=1 receipt=1065 lease=1000 topic=one`,
	"handled before what had been claimed in vain": `
		0-2 p publish a ok due=50 topic=one
		60-62 p publish b ok due=61 topic=one
		63-64 s handle b ok due=61 attempt=1 receipt=1063 lease=1000 topic=one
		1065-1066 s handle a ok due=1060 attempt=2 receipt=2065 lease=1000 topic=one`,
	"handed over to a process that a fault cut off, and handled when that lapsed": `
		0-2 p publish a ok due=950 topic=one
		3-4 p publish b ok due=951 topic=one
		948-949 fault cut
		952-953 s handle b ok due=951 attempt=1 receipt=1952 lease=1000 topic=one
		1953-1954 s handle a ok due=950 attempt=1 receipt=2953 lease=1000 topic=one`,
	"handled before what was due earlier, which a hand-over had when the clock was set past the lease": `
		0-2 p publish a ok due=0 topic=one
		3-4 p publish b ok due=1 topic=one
		10-9000 fault clock offset=60000
		52-53 s handle b ok due=1 attempt=1 receipt=61052 lease=1000 topic=one
		60-61 s handle a ok due=0 attempt=1 receipt=61060 lease=1000 topic=one`,
	"handled before what was given another time": `
		0-2 p publish a ok due=50 topic=one
		3-4 p reschedule a ok due=60 topic=one
		60-62 p publish b ok due=55 topic=one
		63-64 s handle b ok due=55 attempt=1 receipt=1063 lease=1000 topic=one
		65-66 s handle a ok due=60 attempt=1 receipt=1065 lease=1000 topic=one`,
	"handled again after what had been given back": `
		0-2 p publish a ok due=50 topic=one
		60-62 p publish b ok due=61 topic=one
		63-64 s handle a no due=50 attempt=1 receipt=1063 lease=1000 topic=one
		65-66 s handle b ok due=61 attempt=1 receipt=1065 lease=1000 topic=one
		70-71 s handle a ok due=69 attempt=2 receipt=1070 lease=1000 topic=one`,
	"handled before what a power cut had forgotten was claimed": `
		0-2 p publish a ok due=50 topic=one
		60-62 p publish b ok due=61 topic=one
		63-64 s handle b ok due=61 attempt=1 receipt=1063 lease=1000 topic=one
		100-200 fault power loss=1000
		265-266 s handle a ok due=50 attempt=1 receipt=1265 lease=1000 topic=one`,
	"given back in vain, and acknowledged": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-8 w nack m unknown receipt=1005
		9-10 w ack m ok receipt=1005`,
	"acknowledged twice at the same time": `
		0-2 p publish m ok due=0
		5-6 w takes m due=0
		7-9 w ack m ok receipt=1005
		8-10 w ack m ok receipt=1005`,
	"sent in another order than due, since it was published later": `
		0-2 p broadcast b ok due=60
		63-64 p broadcast a ok due=50
		final log b 61
		final log a 63`,
	"killed before it received the last": `
		0-2 p broadcast a ok due=0
		1 l listen listener=x pattern=> position=1
		2 h kill target=l
		5000 h drained
		final log a 5`,
	"a gap where the log was trimmed": `
		0-2 p broadcast a ok due=0
		0-2 p broadcast b ok due=0
		1 l listen listener=x pattern=t position=1
		2 m listen listener=y pattern=t position=4
		8-9 m receive a ok listener=y position=5
		9 l gap listener=x topic=t after=1 position=6
		10-11 l receive b ok listener=x position=7
		final log b 7`,
	"all of a name are dead": `
		0-2 p broadcast a ok due=0
		1 l listen listener=x name=n pattern=t position=1
		20 h kill target=l
		5000 h drained
		final log a 5`,
	"carriers one after the other": `
		0 o beat epoch=1
		5 h kill target=d epoch=1
		3400 o beat epoch=2
		4000 h stop target=e epoch=2
		4050 o beat epoch=3
		9000 h drained`,
	"a carrier that is stopped for less than its lease": `
		0 o beat epoch=1
		5-500 fault kill target=d epoch=1
		600 o beat epoch=1
		9000 h drained`,
	"a takeover after redis was restarted": `
		0 o beat epoch=1
		5-9000 fault restart target=d epoch=1 took=1000
		4400 o beat epoch=2
		9500 h drained`,
	"no takeover while there is another fault": `
		0 o beat epoch=1
		5 h kill target=d epoch=1
		3000-6000 fault stop target=redis
		6500 o beat epoch=2
		9000 h drained`,
}

func TestHistories(t *testing.T) { expectEach(t, histories, right, bounds) }

// expectEach checks histories that break a rule, and right ones that look much like them.
func expectEach(t *testing.T, wrong map[history.Rule]map[string]string, right map[string]string, b history.Bounds) {
	each := func(rule history.Rule, name, text string) {
		t.Run(path.Join(string(rule), name), func(t *testing.T) {
			s := read(t, text)
			expect(t, s.records, s.final, b, rule)
		})
	}
	for rule, cases := range wrong {
		for name, text := range cases {
			each(rule, name, text)
		}
	}
	for name, text := range right {
		each("", name, text)
	}
}

// The contents of the stream are checked if there is a stream.
func TestStored(t *testing.T) {
	const sent = `
		0-2 p broadcast a ok due=0
		0-2 p broadcast b ok due=0
		final log a 5
		final log b 6
		9000 h store a
		`
	for name, c := range map[string]struct {
		text string
		rule history.Rule
	}{
		"each once":    {"9000 h store b", ""},
		"one missing":  {"", history.Stored},
		"one twice":    {"9000 h store b\n9000 h store b", history.Stored},
		"from nowhere": {"9000 h store b\n9000 h store c", history.Stored},
		"one twice, since a call had stopped half way":   {"0-50 fault right halfway=true\n9000 h store b\n9000 h store b", ""},
		"one twice, since a power cut had it sent again": {"100-200 fault power loss=1000\n9000 h store b\n9000 h store b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, sent+c.text)
			s.final.Streams = true
			expect(t, s.records, s.final, bounds, c.rule)
		})
	}
}

func TestOrphans(t *testing.T) {
	const there = `
		0-2 p publish s ok due=90000
		0-2 p publish r ok due=0
		0-2 p publish l ok due=0
		0-2 p publish d ok due=0
		0-2 p broadcast b ok due=90000
		final scheduled s 90000
		final ready r
		final leased l 90000
		final dead d
		final broadcasts b 90000`
	for name, change := range map[string]func(*history.Final){
		"in two places":        func(f *history.Final) { f.Leased["t:r"] = start; f.Leases["t"]++ },
		"no record":            func(f *history.Final) { f.Records = f.Records[1:] },
		"record of nothing":    func(f *history.Final) { f.Records = append(f.Records, "t:x") },
		"attempts of nothing":  func(f *history.Final) { f.Attempts["t:x"] = 1 },
		"expiry of nothing":    func(f *history.Final) { f.Expiries["t:x"] = 1 },
		"death of nothing":     func(f *history.Final) { f.Deaths = append(f.Deaths, "t:x") },
		"death of the living":  func(f *history.Final) { f.Deaths = append(f.Deaths, "t:r") },
		"no reason of death":   func(f *history.Final) { f.Deaths = nil },
		"counter too high":     func(f *history.Final) { f.Leases["t"]++ },
		"counter missing":      func(f *history.Final) { delete(f.Leases, "t") },
		"counter of nothing":   func(f *history.Final) { f.Waiting["x"] = 1 },
		"head too late":        func(f *history.Final) { f.Heads["t"]++ },
		"head missing":         func(f *history.Final) { delete(f.Heads, "t") },
		"head of nothing":      func(f *history.Final) { f.Heads["x"] = start },
		"ready and not listed": func(f *history.Final) { f.ReadySet = nil },
		"listed and not ready": func(f *history.Final) { f.ReadySet["x"] = start },
		"listed too late":      func(f *history.Final) { f.ReadySet["t"]++ },
		"foreign key":          func(f *history.Final) { f.Foreign = []string{"bellhop:{0}:x"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := read(t, there)
			change(&s.final)
			expect(t, s.records, s.final, bounds, history.Orphan)
		})
	}
	s := read(t, there)
	expect(t, s.records, s.final, bounds, "")
}

func TestOverdue(t *testing.T) {
	for place, others := range map[string]string{
		"scheduled":  "0-2 p publish m ok due=1000",
		"leased":     "0-2 p publish m ok due=1000",
		"broadcasts": "0-2 p broadcast m ok due=1000",
	} {
		s := read(t, others+"\nfinal "+place+" m 1000")
		s.final.Now = start + 1500
		expect(t, s.records, s.final, bounds, "")
		s.final.Now++
		expect(t, s.records, s.final, bounds, history.Overdue)
	}
}

// A history that makes no sense is an error, not a violation.
func TestSenselessHistories(t *testing.T) {
	for text, want := range map[string]string{
		"0 w take m": "a take of no claim",
		"0-1 l receive b ok listener=x position=5":    "received by no listener",
		"0 l listen listener=x pattern=.. position=1": "invalid topic",
	} {
		s := read(t, text)
		if _, err := history.Check(s.records, s.final, bounds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
	s := read(t, "0-1 p publish m ok due=1")
	for name, records := range map[string][]history.Record{
		"the end of no operation":          s.records[1:],
		"two operations have one number":   {s.records[0], s.records[0]},
		"the end of no operation: {\"at\"": {s.records[0], s.records[1], s.records[1]},
	} {
		if _, err := history.Check(records, s.final, bounds); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want one with %q", err, name)
		}
	}
}
