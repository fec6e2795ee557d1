// Package crash holds the tests that kill, stop, cut off and starve real processes of
// Bellhop and Redis, and then account for every message. The table in
// cmd/bellhop/internal/trials/faults/README.md lists them.
package crash
