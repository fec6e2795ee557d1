package storetest

import (
	"runtime"
	"testing"
)

// FirstFault plays a scenario without cases, and returns what is wrong with it first.
func FirstFault(t *testing.T, text string) string {
	t.Helper()
	_, file, line, _ := runtime.Caller(1)
	steps, _, _ := parse(t, file, line, text)
	p := NewPlayer(t, Scenario{})
	p.hearRings()
	for _, s := range steps {
		if fault := p.make(s); fault != "" {
			return fault
		}
	}
	return ""
}
