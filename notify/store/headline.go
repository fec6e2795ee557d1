package store

import "strings"

// Headline returns what a reason says first: of a Python traceback that is its last line, with what stands before the traceback.
func Headline(reason string) string {
	before, _, is := strings.Cut(reason, "Traceback (most recent call last):")
	if !is {
		return reason
	}
	reason = strings.TrimSpace(reason)
	return before + strings.TrimSpace(reason[strings.LastIndexByte(reason, '\n')+1:])
}
