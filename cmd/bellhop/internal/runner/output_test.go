package runner

import (
	"io"
	"syscall"
	"testing"
	"time"
)

// However long a reader of ours takes, what a command left in the pipe is copied; a child that holds the pipe is noticed.
func TestPipeIsCopiedWhole(t *testing.T) {
	t.Parallel()
	syscall.ForkLock.RLock() // a child of another test would hold the pipe until it has begun its program
	defer syscall.ForkLock.RUnlock()
	for _, held := range []bool{false, true} {
		p, err := newPipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.end.Write(make([]byte, 60<<10)); err != nil {
			t.Fatal(err)
		}
		if held {
			child, err := syscall.Dup(int(p.end.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			defer syscall.Close(child)
		}
		reader, to := io.Pipe()
		p.copyTo(to)
		_ = p.from.SetReadDeadline(time.Now()) // the time comes while it writes
		copied := make(chan int64)
		go func() {
			n, _ := io.Copy(io.Discard, reader)
			copied <- n
		}()
		if got := p.finish(time.Now()); got != held {
			t.Errorf("somebody holds the pipe: %v, want %v", got, held)
		}
		to.Close()
		if n := <-copied; n != 60<<10 {
			t.Errorf("%d bytes are copied", n)
		}
	}
}
