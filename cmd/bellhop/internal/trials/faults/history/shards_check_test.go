package history_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/faults/history"
)

// twoShards are the bounds of a store of two shards: t and f are in shard 0, a and x in 1.
func twoShards() history.Bounds {
	b := bounds
	b.Shards, b.Beside, b.Apart = 2, 100*time.Millisecond, []string{"t"}
	return b
}

// Wrong histories of a store of two shards, by the rule that they break.
var wrongShards = map[history.Rule]map[string]string{
	history.Mover: {
		"a deposed carrier of the second shard beats": `
			0 o beat epoch=1
			0 o beat shard=1 epoch=4
			5 o beat shard=1 epoch=5
			7 o beat shard=1 epoch=4`,
		"one beats while another shard may have forgotten": `
			0 o beat epoch=2
			1-5 fault failover shards=1 loss=1000 waited=true
			7 o beat epoch=1`,
	},
	history.Takeover: {
		"late in one of two shards": `
			0 o beat epoch=1
			0 o beat shard=1 epoch=1
			5-9 fault kill target=d epochs=0:1,1:1
			100 o beat epoch=2
			4000 o beat shard=1 epoch=2`,
		"late, and a fault hit the other shard": `
			0 o beat epoch=1
			5-9 fault kill target=d epochs=0:1
			5-9 fault stop target=n shards=1
			4000 o beat epoch=2`,
	},
	history.Late: {
		"while a fault hit the other shard": `
			0-2 p publish m ok due=0
			1-900 fault stop shards=1
			200-201 w takes m due=0
			202-203 w ack m ok receipt=1200`,
	},
	history.Lost: {
		"what the other shard may forget": `
			0-2 p publish m ok due=0
			10-20 fault power shards=1 loss=1000`,
		"in a branch of what the other shard may forget": `
			0-2 p publish m ok topic=t@a due=0
			10-20 fault power shards=1 loss=1000`,
	},
	history.Order: {
		"received out of the order of its shard": `
			0-2 p broadcast b ok topic=t due=0
			0-2 p broadcast c ok topic=f due=0
			1 l listen listener=x pattern=> position=1
			10-11 l receive b ok listener=x topic=t position=6
			12-13 l receive c ok listener=x topic=f position=5`,
		"received out of the order of its shard, by the bookmarks": `
			0-2 p broadcast b ok topic=t due=0
			0-2 p broadcast c ok topic=f due=0
			1 l listen listener=x pattern=> position=1
			10-11 l receive b ok listener=x topic=t bookmark=6,9
			12-13 l receive c ok listener=x topic=f bookmark=5,9`,
		"sent out of the order of its shard": `
			0-2 p broadcast b ok topic=t due=20
			0-2 p broadcast c ok topic=f due=30
			final log t/b 31
			final log f/c 30`,
		"deaths in a branch sent out of the order of its shard": `
			0-2 p broadcast b ok topic=$dead.t@d due=20
			0-2 p broadcast c ok topic=f due=30
			final log $dead.t@d/b 31
			final log f/c 30`,
	},
	history.Missed: {
		"of a shard that gave others later": `
			0-2 p broadcast b ok topic=a due=0
			0-2 p broadcast c ok topic=a due=0
			1 l listen listener=x pattern=> bookmark=5,7
			12-13 l receive c ok listener=x topic=a position=9
			final log a/b 8
			final log a/c 9`,
		"by one that lived, though its place in another shard is behind": `
			0-2 p broadcast b ok topic=t due=0
			1 l listen listener=x pattern=> bookmark=5,7
			final log t/b 6
			9000 h drained`,
	},
}

// Right histories of a store of two shards.
var rightShards = map[string]string{
	"carriers of two shards": `
		0 o beat epoch=5
		5 o beat shard=1 epoch=2
		7 o beat epoch=5`,
	"a deposed carrier beats where Redis may have forgotten": `
		0 o beat shard=1 epoch=2
		1-5 fault failover shards=1 loss=1000 waited=true
		7 o beat shard=1 epoch=1`,
	"taken over in both shards": `
		0 o beat epoch=1
		0 o beat shard=1 epoch=1
		5-9 fault kill target=d epochs=0:1,1:1
		100 o beat epoch=2
		3000 o beat shard=1 epoch=2`,
	"taken over late, while a fault hit the shard": `
		0 o beat epoch=1
		5-9 fault kill target=d epochs=0:1
		5-4000 fault stop target=n shards=0
		4000 o beat epoch=2`,
	"late while a fault hit its shard": `
		0-2 p publish m ok due=0
		1-900 fault stop shards=0
		1200-1201 w takes m due=0
		1202-1203 w ack m ok receipt=2200`,
	"in time while a fault hit the other shard": `
		0-2 p publish m ok due=0
		1-900 fault stop shards=1
		90-91 w takes m due=0
		92-93 w ack m ok receipt=1090`,
	"late while a fault hit the other shard, which its claims ask, too": `
		0-2 p publish m ok topic=f due=0
		1-400 fault stop shards=1
		400-401 w takes m topic=f due=0
		402-403 w ack m ok topic=f receipt=1400`,
	"what its shard may forget": `
		0-2 p publish m ok due=0
		10-20 fault power shards=0 loss=1000`,
	"received in another order than that of the positions in two shards": `
		0-2 p broadcast b ok topic=t due=0
		0-2 p broadcast c ok topic=a due=0
		1 l listen listener=x pattern=> position=1
		10-11 l receive b ok listener=x topic=t position=6
		12-13 l receive c ok listener=x topic=a position=5`,
	"received with bookmarks": `
		0-2 p broadcast b ok topic=t due=0
		0-2 p broadcast c ok topic=a due=0
		1 l listen listener=x pattern=> position=1
		10-11 l receive b ok listener=x topic=t bookmark=6,1
		12-13 l receive c ok listener=x topic=a bookmark=6,5
		final log t/b 6
		final log a/c 5
		9000 h drained`,
	"sent in another order in two shards": `
		0-2 p broadcast b ok topic=t due=20
		0-2 p broadcast c ok topic=a due=30
		final log t/b 31
		final log a/c 30`,
	"not sent again of a shard in which it stands behind": `
		0-2 p broadcast b ok topic=a due=0
		0-2 p broadcast c ok topic=t due=0
		1 l listen listener=x pattern=> bookmark=5,7
		12-13 l receive c ok listener=x topic=t position=6
		final log a/b 6
		final log t/c 6
		9000 h drained`,
}

func TestShards(t *testing.T) { expectEach(t, wrongShards, rightShards, twoShards()) }

// Fields about shards that cannot be read are errors.
func TestSenselessShards(t *testing.T) {
	for text, want := range map[string]string{
		"0-1 fault stop shards=x":                        "shards",
		"0-1 fault kill epochs=1":                        "epochs",
		"0 l listen listener=x pattern=> bookmark=1,2,3": "bookmark",
		"0 l listen listener=x pattern=> position=1\n1-2 l receive b ok listener=x topic=t bookmark=1,2,3": "bookmark",
		"0-1 p publish m ok due=1\n0 h kill target=d epochs=a:1":                                           "epochs",
	} {
		s := read(t, text)
		if _, err := history.Check(s.records, s.final, twoShards()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
}
