package doctor

import (
	"context"
	"fmt"
)

// nearlyFull is the share in percent of the memory that messages may use from which on it is a warning.
const nearlyFull = 85

// memory tells how much room there is, and whether anything but the kernel sees to it.
func (e *exam) memory(ctx context.Context) {
	const check, remedy = "memory", "have messages handled, purge dead letters, or raise maxmemory; bellhop topics shows where they are"
	if e.trial {
		e.tell(check, OK, "the trial server has no limit", "")
		return
	}
	m, err := e.store.Memory(ctx)
	if err != nil {
		e.tell(check, Fail, err.Error(), "the user needs +info")
		return
	}
	found := fmt.Sprintf("%s in use", mebibytes(m.Used))
	if m.Max == 0 {
		e.tell(check, Warn, found+", without a limit: where the machine has no more, its kernel kills Redis",
			"run CONFIG SET maxmemory 2gb, or what the machine can spare, and put it into redis.conf: then publishes are refused before that")
		return
	}
	found += fmt.Sprintf(" of %s that messages may have, of %s", mebibytes(m.Limit), mebibytes(m.Max))
	switch {
	case m.Used >= m.Limit:
		e.tell(check, Fail, found+": publishes are refused", remedy)
	case m.Used >= m.Limit*nearlyFull/100:
		e.tell(check, Warn, found+": soon publishes are refused", remedy)
	default:
		e.tell(check, OK, found, "")
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
