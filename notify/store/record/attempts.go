package record

import (
	"strconv"
	"strings"
	"time"
)

// An Attempt is one attempt to handle a message that failed.
type Attempt struct {
	Ended  time.Time     // by Redis's clock, to the millisecond
	Took   time.Duration // from its claim on; negative: unknown
	By     string        // name of the worker that had it; empty: unknown
	Reason string        // why it failed, up to MaxReason bytes
}

// MaxHistory is how many attempts of a message are kept, and MaxReason how many bytes of
// the reason of each.
const (
	MaxHistory = 10
	MaxReason  = 1024
)

// longestTook is the longest time that an attempt is read with.
const longestTook = 100 * 366 * 24 * time.Hour

// Unknown stands for what is not known of an attempt.
const Unknown = "-"

// DecodeAttempts reads what Redis holds of the attempts of a message: how many are used up,
// zero if that is foreign, and the last that failed, oldest first. It skips what is
// foreign of these.
func DecodeAttempts(value string) (used int, history []Attempt) {
	count, lines, _ := strings.Cut(value, "\n")
	used, _ = strconv.Atoi(count)
	for line := range strings.SplitSeq(lines, "\n") {
		if a, ok := attemptIn(line); ok {
			history = append(history, a)
		}
	}
	return used, history
}

// attemptIn reads one attempt: ENDED TOOK NAME REASON.
func attemptIn(line string) (a Attempt, ok bool) {
	fields := strings.SplitN(line, " ", 4)
	ended, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || len(fields) < 4 {
		return a, false
	}
	a = Attempt{Ended: time.UnixMilli(ended), Took: -1, Reason: fields[3]}
	if took, err := strconv.ParseInt(fields[1], 10, 64); err == nil && took >= 0 {
		a.Took = Ms(min(took, int64(longestTook/time.Millisecond)))
	}
	if fields[2] != Unknown {
		a.By = fields[2]
	}
	return a, true
}

// EncodeAttempts returns attempts as Redis holds them: how many are used up, and the last
// that failed, oldest first. It is empty where there are none.
func EncodeAttempts(used int, history []Attempt) string {
	if used == 0 && len(history) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(strconv.Itoa(used))
	for _, a := range history[max(len(history)-MaxHistory, 0):] {
		took, by := Unknown, Unknown
		if a.Took >= 0 {
			took = strconv.FormatInt(a.Took.Milliseconds(), 10)
		}
		if a.By != "" {
			by = a.By
		}
		b.WriteString("\n" + strconv.FormatInt(a.Ended.UnixMilli(), 10) + " " + took + " " + by + " " + oneLine.Replace(a.Reason))
	}
	return b.String()
}

var oneLine = strings.NewReplacer("\r", " ", "\n", " ")
