// Package crash holds the tests that kill, stop, cut off and starve real
// processes of Bellhop and of Redis, and then account for every message. The
// table in cmd/bellhop/internal/trials/faults/README.md names them.
package crash
