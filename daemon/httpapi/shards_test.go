package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bellhopd/bellhop/daemon/api"
	"github.com/bellhopd/bellhop/daemon/calls"
	"github.com/bellhopd/bellhop/daemon/httpapi"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// bulkOf returns the lines of a request that publishes one message to each topic t0, t1 and so on.
func bulkOf(topics int) string {
	var body strings.Builder
	for i := range topics {
		fmt.Fprintf(&body, `{"topic":"t%d","id":"x","body":"body %d"}`+"\n", i, i)
	}
	return body.String()
}

// A gateway in front of eight shards is used as one in front of one.
func TestEightShards(t *testing.T) {
	t.Parallel()
	s := serveOn(t, storetest.Sharded(t, 8), httpapi.Options{})
	carry(t, s.store)
	const topics = 24
	for i, line := range lines[api.Publication](s.call("POST", "/v1/messages", bulkOf(topics)).is(200)) {
		if line.Topic != fmt.Sprintf("t%d", i) || line.Outcome != "created" {
			t.Errorf("line %d is %+v", i, line)
		}
	}
	var names []string
	for cursor := ""; ; {
		page := read[calls.Topics](s.call("GET", "/v1/topics?limit=5"+cursor, "").is(200))
		for _, one := range page.Topics {
			names = append(names, one.Topic)
			if one.Ready != 1 {
				t.Errorf("counted %+v", one)
			}
		}
		if page.Cursor == "" {
			break
		}
		cursor = "&cursor=" + page.Cursor
	}
	if len(names) != topics || !slices.IsSorted(names) {
		t.Errorf("the topics are %v", names)
	}
	for _, name := range names {
		s.call("POST", fmt.Sprintf("/v1/topics/%s/messages/x/ack?receipt=%d", name, s.claim(name).Receipt), "").is(204)
	}
	storetest.Eventually(t, "all shards have a carrier", func() bool {
		c := read[calls.Carriers](s.call("GET", "/v1/carrier", "").is(200))
		return len(c.Shards) == 8 && c.Missing.Missing == nil && c.Name != "" &&
			!slices.ContainsFunc(c.Shards, func(one calls.ShardCarrier) bool { return one.Name != c.Name })
	})
	if c := read[calls.Carriers](s.call("GET", "/v1/carrier", "").is(200)); c.Next != nil {
		t.Errorf("something is due at %v", c.Next)
	}
	due := read[api.Publication](s.call("POST", "/v1/topics/t3/messages?delay=1h", "x").is(201)).Due
	if c := read[calls.Carriers](s.call("GET", "/v1/carrier", "").is(200)); c.Next == nil || !c.Next.Equal(due) {
		t.Errorf("the next is due at %v, want %v", c.Next, due)
	}
	storetest.Eventually(t, "it is ready", func() bool { return s.call("GET", "/readyz", "").status == 200 })
	if a := s.call("GET", "/readyz", ""); strings.Contains(string(a.body), "missing") {
		t.Errorf("got %s", a.body)
	}
}

// A shard is away: its topics are refused with a problem that names it, and what concerns
// all shards is answered with what the others have.
func TestShardAway(t *testing.T) {
	t.Parallel()
	const away, topics = 3, 24
	s := serveOn(t, storetest.ShardAway(t, 8, away), httpapi.Options{})
	missing := []int{away}
	isAway := func(i int) bool { return s.store.Of(fmt.Sprintf("t%d", i)).Number() == away }
	there := 0
	for i, line := range lines[struct{ Error *api.Problem }](s.call("POST", "/v1/messages", bulkOf(topics)).is(200)) {
		switch {
		case !isAway(i):
			there++
			if line.Error != nil {
				t.Errorf("t%d: got %+v", i, line.Error)
			}
		case line.Error == nil || line.Error.Status != 503 || !slices.Equal(line.Error.Missing.Missing, missing):
			t.Errorf("t%d, whose shard is away: got %+v", i, line.Error)
		}
	}
	if there == 0 || there == topics {
		t.Fatalf("%d of %d topics are there", there, topics)
	}
	page := read[calls.Topics](s.call("GET", "/v1/topics?limit=500", "").is(200))
	if len(page.Topics) != there || !slices.Equal(page.Missing.Missing, missing) {
		t.Errorf("got %d topics, and %v are missing", len(page.Topics), page.Missing)
	}
	if c := read[calls.Carriers](s.call("GET", "/v1/carrier", "").is(200)); len(c.Shards) != 7 || !slices.Equal(c.Missing.Missing, missing) {
		t.Errorf("got %+v", c)
	}
	for i := range topics {
		path := fmt.Sprintf("/v1/topics/t%d", i)
		if !isAway(i) {
			s.call("GET", path, "").is(200)
			continue
		}
		for _, a := range []answer{s.call("GET", path, ""), s.call("POST", path+"/messages", "x"), s.call("GET", path+"/messages/x", "")} {
			if p := a.is(503).kind("unavailable").says("shard 3/8").problem(); !slices.Equal(p.Missing.Missing, missing) {
				t.Errorf("got %+v", p)
			}
		}
	}
}

// Ready is who has any shard, whichever have carriers.
func TestReadyWithoutAShard(t *testing.T) {
	t.Parallel()
	db := storetest.ShardAway(t, 8, 3)
	var heard atomic.Pointer[[]int64]
	s := serveOn(t, db, httpapi.Options{Heard: func() []int64 { return *heard.Load() }})
	for _, test := range []struct {
		heard []int64
		want  string
	}{
		{[]int64{0}, `{"status":"ready","carrier":null,"missing":[3]}`},
		{make([]int64, 8), `{"status":"ready","carrier":null,"missing":[3]}`},
		{[]int64{0, 0, 7, 0, 9, 9, 9, 9}, `{"status":"ready","carrier":{"epoch":7,"missing":[0,1,3]},"missing":[3]}`},
		{[]int64{5, 6, 7, 8, 9, 9, 9, 9}, `{"status":"ready","carrier":{"epoch":5},"missing":[3]}`},
	} {
		heard.Store(&test.heard)
		storetest.Eventually(t, test.want, func() bool {
			a := s.call("GET", "/readyz", "")
			return a.status == 200 && strings.TrimSpace(string(a.body)) == test.want
		})
	}
	heard.Store(new([]int64))
	c := carry(t, db)
	storetest.Eventually(t, "all carriers but one are heard", func() bool {
		epochs := heardBy(c)()
		heard.Store(&epochs)
		a := s.call("GET", "/readyz", "")
		return strings.TrimSpace(string(a.body)) == `{"status":"ready","carrier":{"epoch":1,"missing":[3]},"missing":[3]}`
	})
}
