package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/fault"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// What is said of the work stays through later extensions, and is gone with the lease, however that ends, and whatever leases follow.
func TestProgress(t *testing.T) {
	t.Parallel()
	note := "page 2, lease=5 of µ ünï " + strings.Repeat("x", 170)
	storetest.Play(t, strings.ReplaceAll(`
	publish 0
	claim 1 = 0
	has 0 progress=
	extend 0 progress=0
	has 0 progress="0 %"
	extend 0 progress=40 note="NOTE"
	extend 0
	has 0 progress="40 %: NOTE"
== released
	release 0
	has 0 progress=
	redis HINCRBY topics mail:released 9         # so the digit is that of before
	claim 1 = 0
== rejected
	nack 0 delay=0s
	pass 2ms
	carry
	has 0 progress=
	redis HINCRBY topics mail:released 9
	claim 1 = 0:1
== put off
	defer 0 delay=0s
	pass 2ms
	carry
	has 0 progress=
	redis HINCRBY topics mail:released 9
	claim 1 = 0
== dead and requeued
	bury 0
	requeue 0
	has 0 progress=
	redis HINCRBY topics mail:released 9
	claim 1 = 0
== expired
	extend 0 lease=1ms
	pass 2ms
	carry
	has 0 progress=
	redis HINCRBY topics mail:released 9
	claim 1 = 0:1
== acknowledged, and published again
	ack 0
	publish 0
	has 0 progress=
	redis HINCRBY topics mail:released 9
	claim 1 = 0
==
	has 0 progress=
	extend 0 progress=100 note=b
	has 0 progress="100 %: b"
	ack 0
	redis EXISTS extras = 0
	`, "NOTE", note), limited)
}

// A wrong progress is refused, and the lease stays as it is; a lost lease takes none; what is foreign is none.
func TestWrongProgress(t *testing.T) {
	t.Parallel()
	p := storetest.NewPlayer(t, limited)
	p.Play(`
	publish 0
	claim 1 = 0
	`)
	for want, progress := range map[string]store.Progress{
		"progress": {Percent: -1}, "progress ": {Percent: 101}, "note": {Note: strings.Repeat("é", 101)}, "note ": {Note: "\xff"}, "note  ": {Note: "a\nb"}, "note   ": {Note: "a\u00a0b"},
		"progress note": {Percent: 101, Note: "\x1f"},
	} {
		_, err := p.Shard.Extend(store.WithProgress(t.Context(), progress), p.Topic, "", p.Leases(p.Topic, "0"), time.Hour)
		var fields []string
		for _, f := range fault.All(err) {
			fields = append(fields, f.Field)
		}
		if strings.Join(fields, " ") != strings.TrimSpace(want) || !errors.Is(err, notify.ErrInvalid) {
			t.Errorf("%+v: %v", progress, err)
		}
	}
	p.Play(`
	has 0 progress=
	release 0
	claim 1 = 0
	extend 0' progress=1 = lost
	has 0 progress=
	redis HSET extras mail:0 " progress="
	has 0 progress=
	redis HSET extras mail:0 " progress=40"
	has 0 progress=
	redis HSET extras mail:0 " progress=x,0,0,"
	has 0 progress=
	redis HSET extras mail:0 " progress=101,0,0,a"
	has 0 progress=
	redis HSET extras mail:0 " progress=40,0,0"
	has 0 progress=
	extend 0 progress=7                          # in place of a foreign one
	has 0 progress="7 %"
	`)
}

// An extension that says nothing of the work makes the same commands as ever.
func TestProgressCosts(t *testing.T) {
	own := storetest.At(t, storetest.Lend(t), "")
	storetest.Found(t, own)
	p := storetest.NewPlayer(t, storetest.Scenario{Open: func(testing.TB) *notify.Store { return own }})
	p.Play(`
	publish 0
	claim 1 = 0
	extend 0
	`)
	storetest.Must(t, own.Client().ConfigResetStat(t.Context()).Err())
	p.Play("extend 0")
	n := 0
	for _, line := range strings.Split(own.Client().Info(t.Context(), "commandstats").Val(), "\n") {
		if strings.HasPrefix(line, "cmdstat_") && !strings.HasPrefix(line, "cmdstat_info") && !strings.HasPrefix(line, "cmdstat_config") {
			n++
		}
	}
	if n != 6 {
		t.Errorf("an extension makes %d kinds of commands, want fcall, get, time, zmscore, exists and zadd", n)
	}
}
