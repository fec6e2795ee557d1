package api

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bellhopd/bellhop/notify"
	"github.com/bellhopd/bellhop/notify/store"
)

// Attempt is an attempt to handle a message that failed.
type Attempt struct {
	Ended  time.Time `json:"ended" doc:"when it failed, by the clock of Redis"`
	TookMs *int64    `json:"took_ms,omitempty" nullable:"false" doc:"from the claim until then; missing: unknown" example:"1500"`
	Worker string    `json:"worker,omitempty" doc:"name of the worker that had it; missing: unknown" example:"shop-1"`
	Reason string    `json:"reason,omitempty" doc:"why it failed, up to 1 KiB"`
}

// historyOf returns attempts in their JSON form.
func historyOf(attempts []notify.Attempt) (all []Attempt) {
	for _, one := range attempts {
		a := Attempt{Ended: one.Ended.UTC(), Worker: one.By, Reason: one.Reason}
		if one.Took >= 0 {
			a.TookMs = new(Ms(one.Took))
		}
		all = append(all, a)
	}
	return all
}

// Result is what the acknowledgement of a message left: as Result if it is UTF-8, which
// may be empty, else as ResultBase64.
type Result struct {
	Result       *string `json:"result,omitempty" nullable:"false" doc:"the result that its acknowledgement left, if it is UTF-8"`
	ResultBase64 []byte  `json:"result_base64,omitempty" doc:"the result, if it is not UTF-8"`
}

// ResultOf returns a result in its JSON form; nil is no result.
func ResultOf(result []byte) Result {
	if result == nil {
		return Result{}
	}
	if text := string(result); utf8.ValidString(text) {
		return Result{Result: &text}
	}
	return Result{ResultBase64: result}
}

// Awaited takes what [notify.Inspector.Await] returns. Where the wait was over before the
// message ended, which is no error for whoever chose how long to wait, it returns the
// message as it is then.
func Awaited(info notify.Info, err error) (notify.Info, error) {
	if info.State != 0 {
		return info, nil
	}
	return info, err
}

// LeftOut says what of a settlement was not kept, as where Redis is short of memory. The
// settlement stands.
type LeftOut struct {
	LeftOut string `json:"left_out" enum:"result,history" doc:"what is not kept. result: the message is acknowledged and gone, as without keep, since Redis is short of memory or a message follows it under its id. history: the attempt counts, and is not in the history of the message, since Redis is short of memory"`
}

// The values of LeftOut.
const (
	LeftOutResult  = "result"
	LeftOutHistory = "history"
)

// Worker is a daemon, a worker or a listener that is there.
type Worker struct {
	ID      string    `json:"id" doc:"of its subscription to Redis, which no other has"`
	Name    string    `json:"name" example:"shop-1" doc:"as its operator calls it, or HOST-PID"`
	Kind    string    `json:"kind" example:"worker" doc:"daemon, worker or listener"`
	Host    string    `json:"host" example:"shop.example.com" doc:"its machine; empty for a worker that claims over HTTP or NATS"`
	Via     []string  `json:"via,omitempty" doc:"names of the daemons that it claims through, over HTTP or NATS with worker: it is listed while a claim waits, and then until the lease that it got would end, a minute at least. A daemon lists up to 100"`
	Version string    `json:"version,omitempty" example:"1.2.3" doc:"of the program"`
	Topics  []string  `json:"topics" nullable:"false" example:"[\"order.timeout\"]" doc:"topics and patterns that it is there for, as far as the token permits them; a daemon has none"`
	Since   time.Time `json:"since" doc:"since when, by the clock of Redis"`
	Leased  *int64    `json:"leased,omitempty" doc:"messages that were claimed under its name and are not settled, of topics that the token permits; missing for a listener"`
	Least   bool      `json:"leased_least,omitempty" doc:"leased may be more: there are more than 5,000 leases in a shard, or one is away"`
}

// Place returns where a worker is: its machine, or the daemons that it claims through.
func (w Worker) Place() string {
	if len(w.Via) > 0 {
		return "via " + strings.Join(w.Via, " ")
	}
	return w.Host
}

// Workers are those that are there.
type Workers struct {
	Workers []Worker `json:"workers" nullable:"false" doc:"sorted by name"`
}

// WorkersOf returns workers in their JSON form, with what they have in hand: those that are
// there for topics and patterns that show permits, with these alone. With a nil show it is all.
func WorkersOf(all []notify.Worker, hand store.InHand, show func(pattern string) bool) Workers {
	w := Workers{Workers: []Worker{}}
	permits := func(topic string) bool { return show == nil || show(topic) }
	for _, one := range all {
		topics := slices.DeleteFunc(append([]string{}, one.Topics...), func(topic string) bool { return !permits(topic) })
		if show != nil && len(topics) == 0 {
			continue
		}
		worker := Worker{
			ID: one.ID, Name: one.Name, Kind: one.Kind, Host: one.Host, Via: one.Via, Version: one.Version,
			Topics: topics, Since: one.Since.UTC(),
		}
		if one.Kind != "listener" {
			worker.Leased, worker.Least = new(hand.By(one.Name, permits)), hand.Least
		}
		w.Workers = append(w.Workers, worker)
	}
	return w
}
