package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/store"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// foreignThings are what may be foreign of a branch, by what removes it; and what makes it so.
var foreignThings = map[string][]string{
	"DEL keys:orders@mail":      {"SET keys:orders@mail x", "ZADD keys:orders@mail 1 x"},
	"DEL seats:orders@mail":     {"SET seats:orders@mail x", "ZADD seats:orders@mail 1 x"},
	"DEL line:orders@mail":      {"SET line:orders@mail x", "HSET line:orders@mail x y"},
	"DEL heads:orders@mail":     {"SET heads:orders@mail x", "HSET heads:orders@mail x y"},
	"DEL ready:orders@mail":     {"SET ready:orders@mail x", "HSET ready:orders@mail x y"},
	"DEL scheduled:orders@mail": {"SET scheduled:orders@mail x", "HSET scheduled:orders@mail x y"},
	"DEL dead:orders@mail":      {"SET dead:orders@mail x", "HSET dead:orders@mail x y"},
	"DEL waiting:orders@mail":   {"SET waiting:orders@mail x", "HSET waiting:orders@mail x y"},
	"DEL slots:orders@mail":     {"SET slots:orders@mail x", "HSET slots:orders@mail x y"},
	"DEL grouped:orders":        {"SET grouped:orders x", "DEL grouped:orders, HSET grouped:orders x y"},
	"DEL groups:orders":         {"SET groups:orders x", "DEL groups:orders, ZADD groups:orders 1 x"},
	"DEL expiries":              {"SET expiries x"},
	"DEL attempts":              {"SET attempts x"},

	"HDEL topics orders@mail:settings":  {"HSET topics orders@mail:settings x"},
	"HDEL topics orders@mail:published": {"HSET topics orders@mail:published x", "HSET topics orders@mail:published 9223372036854775807"},
	"HDEL messages orders@mail:a":       {"HSET messages orders@mail:a x"},

	"DEL ready:orders@mail, DEL dead:orders@mail": {"SET ready:orders@mail x, SET dead:orders@mail x"},
}

// Whatever is foreign of a branch, the carrier goes on with what does not need it. Once that is removed each message has come into each branch once: as a
// dead letter, where it had no place.
func TestForeignThingsOfBranches(t *testing.T) {
	t.Parallel()
	storetest.OneShard(t, "one carrier has all topics")
	for remove, all := range foreignThings {
		for _, put := range all {
			t.Run(put, func(t *testing.T) {
				t.Parallel()
				copyBeside(t, put, remove)
			})
		}
	}
}

// copyBeside copies messages of a topic, which are handled in its branches, while something is foreign, and once that is removed.
func copyBeside(t *testing.T, put, remove string) {
	t.Helper()
	p := storetest.NewPlayer(t, storetest.Scenario{})
	p.Play(`
	set branches=mail,points
	set topic=others branches=mail
	publish a b key=k
	publish c ttl=1h
	publish d key=l group=g
	publish e group=g
	publish x topic=others
	publish y topic=plain delay=1ms
	pass 2ms
	` + commands(put))
	handled := make(map[string][]string)
	work := func(of string) error {
		p.Carry(false)
		claimed, err := p.Shard.Claim(t.Context(), store.Claim{Topic: of, Max: 10, Lease: time.Minute})
		for _, m := range claimed.Messages {
			if _, err := p.Shard.Ack(t.Context(), of, []store.Lease{m.Lease}); err != nil {
				return err
			}
			id, _, _ := strings.Cut(strings.TrimPrefix(m.Member, of+":"), "~")
			handled[of] = append(handled[of], id)
		}
		return err
	}
	for range 3 {
		storetest.Must(t, work("orders@points"))
		_ = work("orders@mail") // which may be what is foreign
	}
	p.Play("is topic=others@mail x=ready\n is topic=plain y=ready\n" + commands(remove) + "redis ZADD alarms 1 @orders")
	for range 5 {
		for _, of := range []string{"orders@mail", "orders@points"} {
			storetest.Must(t, work(of))
			storetest.Must(t, storetest.ErrOf(p.Shard.Requeue(t.Context(), of, store.Letters{Members: membersOf(of, storetest.Dead(t, p.Store, of))})))
		}
	}
	for of, ids := range handled {
		slices.Sort(ids)
		storetest.Same(t, "handled in "+of, []string{"a", "b", "c", "d", "e"}, ids)
	}
	storetest.Is(t, "branches in which something was handled", len(handled), 2)
}

// commands returns commands of Redis as steps.
func commands(text string) string {
	return "\nredis " + strings.ReplaceAll(text, ", ", "\nredis ") + "\n"
}
