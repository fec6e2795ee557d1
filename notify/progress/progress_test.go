package progress_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/notify/progress"
)

func TestAliveReportsALoopThatIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 45 * time.Second
		l := progress.New("test", bound)
		alive := func(when string) {
			t.Helper()
			if err := l.Alive(); err != nil {
				t.Errorf("%s: %v", when, err)
			}
		}
		time.Sleep(2 * bound)
		alive("it does not run yet")
		l.Note()
		began := time.Now()
		time.Sleep(bound)
		alive("it came around just within the bound")
		time.Sleep(time.Nanosecond)
		want := "the loop of the test last came around at " + began.UTC().Format(time.RFC3339) + ", and should within 45s"
		if err := l.Alive(); err == nil || err.Error() != want || !l.Last().Equal(began) {
			t.Errorf("got %v of %v, want %s", err, l.Last(), want)
		}
		l.Note()
		alive("it goes on")
		time.Sleep(2 * bound)
		l.End()
		alive("it has ended")
		if !l.Last().IsZero() {
			t.Errorf("it has ended, and last came around at %v", l.Last())
		}
	})
}
