package doctor

import (
	"fmt"

	"github.com/bellhopd/bellhop/notify/store/reach"
)

// memory reports how much memory is left, and whether Redis limits it at all.
func (s *server) memory(m reach.Memory) {
	const check, remedy = "memory", "start workers, purge dead letters, or raise maxmemory; bellhop topics shows where the messages are"
	if s.trial {
		s.report(check, OK, "the trial server has no limit", "")
		return
	}
	found := fmt.Sprintf("%s in use", mebibytes(m.Used))
	if m.Max == 0 {
		s.found = append(s.found, Finding{
			Check: check, Verdict: Warn, Found: found + ", without a limit: when the machine runs out of memory, its kernel kills Redis",
			Remedy: "run CONFIG SET maxmemory 2gb (or what the machine can spare), and put it into redis.conf: publishes are then refused before that", Lasts: true,
		})
		return
	}
	found += fmt.Sprintf(" of the %s that messages may use; maxmemory is %s", mebibytes(m.Limit), mebibytes(m.Max))
	switch {
	case m.IsFull():
		s.full = true
		s.report(check, Fail, found+": publishes are refused", remedy)
	case m.IsNearlyFull():
		s.report(check, Warn, found+": publishes will soon be refused", remedy)
	default:
		s.report(check, OK, found, "")
	}
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
