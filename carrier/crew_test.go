package carrier_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/carrier"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// eight returns a store of eight shards.
func eight(t testing.TB) *notify.Store {
	t.Helper()
	db, err := notify.Open(notify.Config{URL: storetest.URL(), Prefix: fmt.Sprintf("%s-%d", t.Name(), time.Now().UnixNano()), Shards: 8})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A member of a crew is one of several carriers.
type member struct {
	*carrier.Carrier
	stop func()
}

func join(t testing.TB, db *notify.Store, name string) member {
	t.Helper()
	c, err := carrier.New(db, carrier.Options{Name: name, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return member{c, storetest.Run(t, c.Run)}
}

// carries returns how many shards a carrier carries.
func (m member) carries() (n int) {
	for _, s := range m.States() {
		if s.Carrying {
			n++
		}
	}
	return n
}

// Shards are shared out evenly among carriers, as they come and go.
func TestCrew(t *testing.T) {
	t.Parallel()
	db := eight(t)
	var crew []member
	shares := func() (all []int) {
		for _, m := range crew {
			all = append(all, m.carries())
		}
		return all
	}
	even := func() bool {
		all, sum, least, most := shares(), 0, 8, 0
		for _, n := range all {
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		return sum == 8 && most-least <= 1
	}
	for _, name := range []string{"a", "b", "c"} {
		crew = append(crew, join(t, db, name))
		began := time.Now()
		storetest.Eventually(t, "the shares are even", func() bool { return even() })
		t.Logf("%v after %v", shares(), time.Since(began))
	}
	began := time.Now()
	crew[0].stop()
	t.Logf("stopped in %v", time.Since(began))
	crew = crew[1:]
	storetest.Eventually(t, "the shares are even", even)
	t.Logf("%v after %v", shares(), time.Since(began))
}
