package storetest

import (
	"os"
	"strconv"
)

// thirdVariable names the environment variable with the third of each sweep that this run makes. make test has another one for each commit.
const thirdVariable = "THIRD"

// InThird reports whether this run makes the nth case of a sweep, which is a test of many cases that are alike: each third one of
// those, or each where the environment names no third.
func InThird(n int) bool {
	third := os.Getenv(thirdVariable)
	if third == "" {
		return true
	}
	of, err := strconv.Atoi(third)
	if err != nil || of < 0 || of > 2 {
		panic(thirdVariable + "=" + third + ": write 0, 1 or 2, or leave it out for all cases")
	}
	return n%3 == of
}
