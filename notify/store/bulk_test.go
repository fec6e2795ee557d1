package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/store/record"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// makeReady makes messages of the topic t ready in runs of one due time, and returns
// their ids and due times in the order in which they are claimed.
func makeReady(t *testing.T, db *notify.Store, runs ...int) (ids []string, dues []int64) {
	t.Helper()
	var all []redis.Z
	records := make(map[string]any)
	for due, n := range runs {
		for range n {
			id := fmt.Sprintf("%05d", len(ids))
			ids, dues = append(ids, id), append(dues, int64(due+1))
			all = append(all, redis.Z{Score: float64(due + 1), Member: "t:" + id})
			records["t:"+id] = "1\n" + id
		}
	}
	keys := db.KeysOf("t")
	client := db.Client()
	for _, err := range []error{
		client.HSet(t.Context(), keys.Messages(), records).Err(), client.ZAdd(t.Context(), keys.ReadyTopics(), redis.Z{Score: 1, Member: "t"}).Err(),
		client.ZAdd(t.Context(), keys.Ready("t"), all...).Err(),
	} {
		storetest.Must(t, err)
	}
	return ids, dues
}

func claim(t *testing.T, db *notify.Store, n int) store.Claimed {
	t.Helper()
	got, err := db.Of("t").Claim(t.Context(), store.Claim{Topic: "t", Max: n})
	storetest.Must(t, err)
	return got
}

// A claim brings messages in their order, each with its own record and due time, whether many or few have the same.
func TestClaimOfRuns(t *testing.T) {
	t.Parallel()
	ones := slices.Repeat([]int{1}, 40)
	for name, runs := range map[string][]int{
		"one": {1}, "few": {15}, "as many as are read with their times": {16}, "one more": {17}, "one time": {300}, "two times": {100, 100},
		"all times differ": ones, "at first many, then few": append([]int{50}, ones...), "few, then many": append(ones[:3:3], 200),
		"many after few": append(append([]int{50}, ones[:20]...), 100), "more than is claimed": {400, 400},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			ids, dues := makeReady(t, db, runs...)
			got := claim(t, db, record.MaxClaim)
			if want := min(len(ids), record.MaxClaim); len(got.Messages) != want || got.Short != (want < record.MaxClaim) {
				t.Fatalf("claimed %d, short: %v; want %d", len(got.Messages), got.Short, want)
			}
			for i, m := range got.Messages {
				if m.Member != "t:"+ids[i] || m.Record != "1\n"+ids[i] || m.Due.UnixMilli() != dues[i] {
					t.Fatalf("message %d is %+v; want id %s, due %d", i, m, ids[i], dues[i])
				}
			}
		})
	}
}

// Of many messages of one time, those are buried that are of another topic, expired or without a record; the others are claimed.
func TestClaimOfManyBuries(t *testing.T) {
	t.Parallel()
	for name, stray := range map[string]string{"sorts first": "a:1", "sorts last": "u:1", "has no topic": "zz", "is named like the topic": "t"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			ids, _ := makeReady(t, db, 100)
			keys := db.KeysOf("t")
			db.Client().ZAdd(t.Context(), keys.Ready("t"), redis.Z{Score: 1, Member: stray})
			db.Client().HDel(t.Context(), keys.Messages(), "t:"+ids[0])
			db.Client().ZAdd(t.Context(), keys.Expiries(), redis.Z{Score: 1, Member: "t:" + ids[50]})
			got := claim(t, db, record.MaxClaim)
			reasons := make(map[string]string)
			for _, b := range got.Buried {
				reasons[b.Member] = b.Reason
			}
			if len(got.Messages) != 98 || len(reasons) != 3 || reasons[stray] != "member of another topic" ||
				reasons["t:"+ids[0]] != "record is missing" || reasons["t:"+ids[50]] != "expired" {
				t.Errorf("claimed %d, buried %v", len(got.Messages), reasons)
			}
			storetest.Is(t, "leased", db.Client().ZCard(t.Context(), keys.Leased()).Val(), 98)
		})
	}
}

// What does not fit into a reply stays ready, and the claim says that there is more.
func TestClaimOfLargeRecords(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	ids, _ := makeReady(t, db, 100)
	large := make(map[string]any)
	for _, id := range ids {
		large["t:"+id] = "1\n" + strings.Repeat("x", 1<<17)
	}
	db.Client().HSet(t.Context(), db.KeysOf("t").Messages(), large)
	for left := len(ids); left > 0; {
		got := claim(t, db, record.MaxClaim)
		if n := len(got.Messages); n == 0 || n > 33 || got.Short != (n == left) || got.Messages[0].Member != "t:"+ids[len(ids)-left] {
			t.Fatalf("claimed %d of %d, short: %v", n, left, got.Short)
		}
		left -= len(got.Messages)
	}
}

// An acknowledgement of many removes those whose receipts are right, and names the others, whether they were claimed together or not.
func TestAckOfMany(t *testing.T) {
	t.Parallel()
	for name, each := range map[string]int{"one by one": 1, "a few each": 5, "all at once": 100, "two claims": 50} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Open(t)
			makeReady(t, db, 100)
			var leases []store.Lease
			for len(leases) < 100 {
				for _, m := range claim(t, db, each).Messages {
					leases = append(leases, m.Lease)
				}
			}
			wrong, settled := 3, 98
			if lost, err := db.Of("t").Ack(t.Context(), "t", leases[settled:settled+1]); err != nil || len(lost) > 0 {
				t.Fatal(lost, err)
			}
			asked := slices.Clone(leases[:99])
			asked[wrong].Receipt++
			asked = append(asked, asked[7], store.Lease{Member: "t:none", Receipt: asked[0].Receipt})
			lost, err := db.Of("t").Ack(t.Context(), "t", asked)
			if err != nil || !slices.Equal(lost, []int{wrong, settled, 100}) {
				t.Errorf("lost %v, %v", lost, err)
			}
			left, err := db.Client().ZRange(t.Context(), db.KeysOf("t").Leased(), 0, -1).Result()
			if err != nil || !slices.Equal(left, []string{leases[wrong].Member, leases[99].Member}) {
				t.Errorf("leased are %v, %v", left, err)
			}
			if counts, err := storetest.Inspector(t, db).Count(t.Context(), "t"); err != nil || counts[0].Leased != 2 {
				t.Errorf("got %+v, %v", counts, err)
			}
		})
	}
}

// A few messages of a large claim are acknowledged as all of it are.
func TestAckOfSome(t *testing.T) {
	t.Parallel()
	db := storetest.Open(t)
	makeReady(t, db, 500)
	var leases []store.Lease
	for _, m := range claim(t, db, record.MaxClaim).Messages {
		leases = append(leases, m.Lease)
	}
	for len(leases) > 0 {
		n := min(20, len(leases))
		if lost, err := db.Of("t").Ack(t.Context(), "t", leases[len(leases)-n:]); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		leases = leases[:len(leases)-n]
	}
	if n, err := db.Client().Exists(t.Context(), db.KeysOf("t").Leased(), db.KeysOf("t").Messages()).Result(); n != 0 || err != nil {
		t.Errorf("%d keys are left, %v", n, err)
	}
}
