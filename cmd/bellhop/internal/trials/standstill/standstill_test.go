package standstill_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellhopd/bellhop/cmd/bellhop/internal/trials/standstill"
	"github.com/bellhopd/bellhop/notify/storetest"
)

// The test binary also runs as a process that is stopped.
func TestMain(m *testing.M) {
	if os.Getenv("STANDSTILL_ROLE") == "" {
		os.Exit(m.Run())
	}
	w, began := new(standstill.Watch), time.Now()
	w.Turn(began)
	go func() { _ = w.Run(context.Background()) }()
	for w.Within(began, time.Now()) < stopped { // of a busy machine, some is noted before it is stopped
		fmt.Println(w.Within(began, time.Now()))
		time.Sleep(time.Millisecond)
	}
	fmt.Println("stood still")
}

// stopped is for how long the process is stopped: far longer than any machine lets it wait.
const stopped = 2 * time.Second

// A process that is stopped sees a gap of that time.
func TestAStoppedProcessSeesAGap(t *testing.T) {
	t.Parallel()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "STANDSTILL_ROLE=stopped")
	process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := process.StdoutPipe()
	storetest.Must(t, err)
	storetest.Must(t, process.Start())
	said, ended := make(chan string, 1), make(chan string, 1)
	go func() {
		last := ""
		for lines := bufio.NewScanner(out); lines.Scan(); {
			last = lines.Text()
			select {
			case said <- last:
			default:
			}
		}
		ended <- last
	}()
	storetest.Receive(t, "the process watches", said)
	storetest.Must(t, process.Process.Signal(syscall.SIGSTOP))
	time.Sleep(stopped + 100*time.Millisecond)
	storetest.Must(t, process.Process.Signal(syscall.SIGCONT))
	if last := storetest.Receive(t, "the process sees that it stood still", ended); last != "stood still" {
		t.Errorf("its last words are %q", last)
	}
	storetest.Should(t, process.Wait())
}

// What goes on in time is not excused, however long the test waits for a slow process.
func TestNothingElseIsAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, began := standstill.Start(t), time.Now()
		for range 1000 {
			time.Sleep(7 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if got := w.Within(began, time.Now()); got != 0 {
			t.Errorf("the machine stood still for %v", got)
		}
	})
}

// A gap counts as far as it lies in the period, and short ones do not.
func TestWithin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, began := new(standstill.Watch), time.Now()
		at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
		for _, ms := range []int{0, 5, 12, 31, 36, 136, 141, 241} {
			w.Turn(at(ms))
		}
		time.Sleep(300 * time.Millisecond) // the loop has had no turn since 241
		for _, c := range []struct{ from, to, want int }{
			{0, 40, 0}, {0, 140, 95}, {50, 100, 50}, {100, 200, 36 + 54}, {136, 146, 0}, {242, 300, 54}, {200, 100, 0},
		} {
			if got := w.Within(at(c.from), at(c.to)); got != time.Duration(c.want)*time.Millisecond {
				t.Errorf("from %d to %d ms: %v, want %d ms", c.from, c.to, got, c.want)
			}
		}
	})
}
