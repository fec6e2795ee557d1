package repair_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/bellhopd/bellhop/daemon/doctor/repair"
	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store/reach"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// limitedTo returns the store for a user with the given rights only.
func limitedTo(t *testing.T, db *notify.Store, rights string) *notify.Store {
	t.Helper()
	name := strings.ToLower(notify.NewID())
	rule := []any{"ACL", "SETUSER", name, "on", ">secret"}
	for _, word := range strings.Fields(rights) {
		rule = append(rule, word)
	}
	storetest.Must(t, db.Client().Do(t.Context(), rule...).Err())
	url := strings.Replace(storetest.URL(), "redis://", "redis://"+name+":secret@", 1)
	return storetest.With(t, notify.Config{URL: url, Prefix: db.Prefix()})
}

// A user with the rights that the page names finds and repairs every damage.
func TestLeastRights(t *testing.T) {
	for _, test := range damages {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			prefix := "test-" + notify.NewID()
			db := openAt(t, storetest.URL(), prefix)
			fill(t, db)
			test.damage(t, db)
			slices.Sort(test.found)
			limited := limitedTo(t, db, reach.RepairRights(prefix, 1))
			if got, _ := run(t, limited, false); !slices.Equal(got, test.found) {
				t.Errorf("found %v, want %v", got, test.found)
			}
			run(t, limited, true)
			if got, _ := run(t, db, false); len(got) > 0 {
				t.Errorf("left is %v", got)
			}
		})
	}
}

func TestRightsAreMissing(t *testing.T) {
	prefix := "test-" + notify.NewID()
	db := openAt(t, storetest.URL(), prefix)
	fill(t, db)
	for _, right := range strings.Fields(strings.TrimPrefix(reach.RepairRights(prefix, 1), reach.Rights(prefix, 1))) {
		limited := limitedTo(t, db, strings.ReplaceAll(reach.RepairRights(prefix, 1)+" ", right+" ", " "))
		_, err := repair.Run(t.Context(), limited, repair.Options{}, func(repair.Finding) {})
		if right != "+xrevrange" && err == nil { // needed only if a log is in no index
			t.Errorf("without %s there is no error", right)
		}
	}
}
