package subscribers

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// names returns the names of callers, each with its topics.
func (c *callers) names() string {
	text := ""
	for _, one := range c.workers() {
		text += fmt.Sprint(one.Name, one.Topics, " ")
	}
	return text
}

// A worker that names itself is there while a claim is under way, and then for a minute, or as long as the lease that it got.
func TestCallersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all callers
		want := func(want string) {
			t.Helper()
			if got := all.names(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		all.claims("", []string{"t"})(0)
		want("")
		end := all.claims("a", []string{"u", "t"})
		time.Sleep(time.Hour)
		want("a[t u] ")
		all.claims("b", []string{"t"})(5 * time.Minute)
		end(0)
		time.Sleep(time.Minute)
		want("a[t u] b[t] ")
		time.Sleep(time.Nanosecond)
		want("b[t] ")
		all.claims("b", []string{"v", "t"})(0) // what it got before is leased for longer
		time.Sleep(4*time.Minute - time.Nanosecond)
		want("b[t v] ")
		time.Sleep(time.Nanosecond)
		want("")
	})
}

// However many names there are, and topics, an entry names some.
func TestCallersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers{}
		for i := range 2 * mostCallers {
			for n := range 2 * topicsOfEach {
				all.claims(fmt.Sprint(i), []string{fmt.Sprint(n)})(0)
			}
		}
		there := all.workers()
		if len(there) != mostCallers || len(there[0].Topics) != topicsOfEach {
			t.Errorf("%d are there, the first for %d topics", len(there), len(there[0].Topics))
		}
		time.Sleep(callerStays + 1)
		all.claims("later", nil)(0)
		if got := all.names(); got != "later[] " {
			t.Errorf("got %q", got)
		}
	})
}
