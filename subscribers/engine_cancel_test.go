package subscribers

import (
	"context"
	"testing"
	"time"
)

// The handler of a piece that is cancelled learns of it by the next extension. The piece is released, whatever the handler returns, and
// its lease is not extended any more; those beside it are.
func TestCancelledEndsItsHandler(t *testing.T) {
	for name, returns := range map[string]func(error) error{"nothing": func(error) error { return nil }, "an error": func(err error) error { return err }} {
		t.Run(name, func(t *testing.T) {
			virtually(t, terms{concurrency: 2}, func(t *testing.T, f *fake) {
				f.over["a"] = true
				f.handler = func(ctx context.Context, id string) error {
					if id == "a" {
						err := f.untilEnd(ctx, id)
						time.Sleep(15 * time.Second)
						return returns(err)
					}
					return pass(ctx, 22*time.Second)
				}
				f.start("a", "b")
				f.at(time.Minute)
				f.want("over", "10s a: the message is cancelled, and the work on it is to stop")
				f.want("extend", "10s [a b] by 30s", "20s [b] by 30s")
				f.want("release", "25s [a] and go on")
				f.want("ack", "22s [b'']")
				f.want("reject")
				f.wantLog(1, "the piece was cancelled while it was handled")
			})
		})
	}
}

// What is cancelled while it is queued is released, and no handler sees it; what is done is acknowledged all the same.
func TestCancelledInTheQueue(t *testing.T) {
	virtually(t, terms{concurrency: 1, ahead: 10}, func(t *testing.T, f *fake) {
		f.handler = func(ctx context.Context, id string) error {
			if id == "long" {
				return pass(ctx, 50*time.Millisecond)
			}
			return pass(ctx, time.Millisecond)
		}
		f.takes["ack"] = time.Second
		f.start("1")
		f.at(10 * time.Millisecond)
		f.add("long", "next", "last")
		f.at(20 * time.Millisecond)
		f.over["next"] = true
		f.stopWork(func(p *piece) bool { return p.id == "next" || p.id == "1" })
		f.at(time.Minute)
		f.want("handle", "0s 1", "10ms long", "60ms last")
		f.want("release", "60ms [next] and go on")
		f.want("ack", "1.001s [1]", "2.001s [long last]")
	})
}

// A handler is told at once, by whatever stops it.
func TestStopWorkEndsItsHandler(t *testing.T) {
	virtually(t, terms{concurrency: 1}, func(t *testing.T, f *fake) {
		f.handler = f.untilEnd
		f.start("a")
		f.at(5 * time.Second)
		f.over["a"] = true
		f.stopWork(func(p *piece) bool { return p.id == "b" })
		f.at(6 * time.Second)
		f.stopWork(func(p *piece) bool { return p.id == "a" })
		f.at(time.Minute)
		f.want("over", "6s a: the message is cancelled, and the work on it is to stop")
		f.want("extend")
		f.want("release", "6s [a] and go on")
	})
}
