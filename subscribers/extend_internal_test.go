package subscribers

import (
	"fmt"
	"testing"
	"time"

	"github.com/bellhopd/bellhop/notify/storetest"
)

// Leases that become shorter with each claim put off the extension of none before them.
func TestLeasesThatBecomeShorter(t *testing.T) {
	const n = 8
	virtually(t, terms{concurrency: n}, func(t *testing.T, f *fake) {
		lease := func(i int) time.Duration { return 4*time.Second - time.Duration(i)*200*time.Millisecond }
		f.takes["handle"] = time.Minute
		f.start()
		var last [n]time.Duration // when each was claimed, or extended
		for i := range n {
			f.length, last[i] = lease(i), time.Since(f.began)
			f.add(fmt.Sprint(i))
			f.at(time.Duration(i+1) * time.Second) // a quarter of the first lease
		}
		notes := f.notes["extend"]
		for i := range n {
			notes = append(notes, fmt.Sprintf("%v [%d] by %v", n*time.Second, i, lease(i)))
		}
		for _, note := range notes {
			var at, by string
			var id int
			storetest.Must(t, storetest.ErrOf(fmt.Sscanf(note, "%s [%d] by %s", &at, &id, &by)))
			now, err := time.ParseDuration(at)
			if since := now - last[id]; err != nil || since > lease(id)*2/3 || by != lease(id).String() {
				t.Errorf("the lease %d, of %v, is extended by %s after %v, %v", id, lease(id), by, since, err)
			}
			last[id] = now
		}
	})
}
