package api

import (
	"time"

	"github.com/bellhopd/bellhop/notify"
)

// Attempt is an attempt to handle a message that failed.
type Attempt struct {
	Ended  time.Time `json:"ended" doc:"when it failed, by the clock of Redis"`
	TookMs *int64    `json:"took_ms,omitempty" nullable:"false" doc:"from the claim until then; missing: unknown" example:"1500"`
	Worker string    `json:"worker,omitempty" doc:"name of the worker that had it; missing: unknown" example:"shop-1"`
	Reason string    `json:"reason,omitempty" doc:"why it failed, up to 1 KiB"`
}

// AttemptsOf returns attempts in their JSON form.
func AttemptsOf(attempts []notify.Attempt) (all []Attempt) {
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
	text, data := legible(result)
	return Result{Result: text, ResultBase64: data}
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
